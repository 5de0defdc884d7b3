// Explanations as pages, pictures and differences. The page is one file: its data as JSON, its program and its style
// stand in page.hpp; it loads nothing.
#pragma once

#include <sinter/jit/call/call.hpp>
#include <sinter/jit/observe/explained.hpp>
#include <sinter/jit/observe/page.hpp>
#include <sinter/jit/observe/picture.hpp>
#include <sinter/jit/observe/profile.hpp>

#include <sinter/base/json_text.hpp>
#include <sinter/graph/op_info.hpp>
#include <sinter/runtime/partition_plan.hpp>
#include <sinter/runtime/watch.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

/// A plan of a part with the graph that its steps number.
struct DrawnPlan {
  std::string title;
  const Graph* graph = nullptr;
  const Plan* plan = nullptr;
  std::vector<std::int64_t> symbols;
};

inline std::vector<std::int64_t> symbols_of(const Plan& plan, const std::vector<std::int64_t>& given) {
  if (plan.symbols().size() == given.size()) return given;
  std::vector<std::int64_t> hints;
  for (const SymbolInfo& symbol : plan.symbols()) hints.push_back(symbol.hint);
  return hints;
}
inline void add_drawn(std::vector<DrawnPlan>& drawn, const std::string& title, const Graph& graph, const Plan* plan,
                      const std::vector<std::int64_t>& symbols) {
  if (plan != nullptr && plan->parts() != nullptr) {
    for (const PartitionPlan::Part& part : plan->parts()->parts)
      if (part.plan != nullptr && part.plan->origin() != nullptr)
        add_drawn(drawn, title + ", its part on " + part.device.text(), part.plan->origin()->graph, part.plan.get(),
                  symbols);
    return;
  }
  const Graph& shown = plan != nullptr && plan->origin() != nullptr ? plan->origin()->graph : graph;
  drawn.push_back({title, &shown, plan, plan != nullptr ? symbols_of(*plan, symbols) : symbols});
  if (plan == nullptr) return;
  for (const PlanStep& step : plan->steps())
    if (step.host)
      for (const auto& body : step.host->bodies)
        if (body->origin() != nullptr && drawn.size() < 64)
          add_drawn(drawn, title + ", body of " + step.name, body->origin()->graph, body.get(), {});
}

/// Which step computes each node; -1: none does, or several.
inline std::vector<int> steps_of_nodes(const DrawnPlan& drawn) {
  std::vector<int> step_of(drawn.graph->nodes().size(), -1);
  if (drawn.plan == nullptr) return step_of;
  for (std::size_t i = 0; i < drawn.plan->steps().size(); ++i)
    for (const std::int32_t node : drawn.plan->steps()[i].nodes)
      if (node >= 0 && as_index(node) < step_of.size()) step_of[as_index(node)] = static_cast<int>(i);
  return step_of;
}

/// ", one of kernels 3 to 7, which are one launch"; empty: it is a launch of its own.
inline std::string launch_of(const Plan& plan, int step) {
  for (const StepRange& group : plan.groups())
    if (group.first <= step && step < group.end)
      return ", one of kernels " + std::to_string(group.first) + " to " + std::to_string(group.end - 1) +
             ", which are one launch";
  return {};
}

inline std::vector<PictureBox> boxes_of(const DrawnPlan& drawn) {
  const std::vector<int> step_of = steps_of_nodes(drawn);
  std::vector<PictureBox> boxes;
  const auto& nodes = drawn.graph->nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    PictureBox box;
    const bool is_input = std::find(drawn.graph->inputs().begin(), drawn.graph->inputs().end(),
                                    Value{static_cast<std::int32_t>(i), 0}) != drawn.graph->inputs().end();
    box.title = "%" + std::to_string(i) + " " + std::string(node.op->name);
    const std::string name(is_input ? node.attrs[input_name] : std::string());
    if (!name.empty()) box.title += " " + name;
    for (const Type& type : node.types) box.detail += (box.detail.empty() ? "" : ", ") + type.text();
    box.is_round = is_input || node.op->kind == OpKind::leaf;
    box.group = step_of[i];
    box.tip = box.title + ": " + box.detail;
    if (const std::string line = node.where.text(); !line.empty()) box.tip += "\nfrom " + line;
    if (box.group >= 0)
      box.tip += "\nkernel " + std::to_string(box.group) + ", " + drawn.plan->steps()[as_index(box.group)].name +
                 launch_of(*drawn.plan, box.group);
    for (const Value input : node.inputs) box.inputs.push_back(as_index(input.node));
    boxes.push_back(std::move(box));
  }
  for (const Value output : drawn.graph->outputs()) {
    PictureBox box;
    box.title = "output";
    box.detail = drawn.graph->type(output).text();
    box.is_round = true;
    box.inputs.push_back(as_index(output.node));
    box.tip = "an output of the graph";
    boxes.push_back(std::move(box));
  }
  return boxes;
}

/// A box for each kernel, with arrows along the buffers between them.
inline std::vector<PictureBox> boxes_of_kernels(const DrawnPlan& drawn) {
  std::vector<PictureBox> boxes;
  std::map<std::pair<BufferKind, std::int32_t>, std::size_t> writer;
  const std::span<const PlanStep> steps = drawn.plan->steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const PlanStep& step = steps[i];
    PictureBox box;
    box.title = "kernel " + std::to_string(i) + " " + step.name;
    box.detail = lines_of(step);
    box.group = static_cast<int>(i);
    box.tip = box.title + "\n" + box.detail;
    for (std::size_t k = 0; k < step.operands.size(); ++k) {
      const bool is_written = step.host ? k >= step.host_inputs() : step.kernel.operands[k].written;
      const auto key = std::pair{step.operands[k].kind, step.operands[k].index};
      const auto found = writer.find(key);
      if (found != writer.end() && found->second != i &&
          std::find(box.inputs.begin(), box.inputs.end(), found->second) == box.inputs.end())
        box.inputs.push_back(found->second);
      if (is_written) writer[key] = i;
    }
    boxes.push_back(std::move(box));
  }
  return boxes;
}

inline constexpr std::size_t most_boxes = 700;
inline std::string picture_of(const DrawnPlan& drawn, const std::string& id) {
  if (drawn.graph->nodes().size() > most_boxes && drawn.plan != nullptr) return draw_boxes(boxes_of_kernels(drawn), id);
  if (drawn.graph->nodes().size() > 4 * most_boxes) return {};
  return draw_boxes(boxes_of(drawn), id);
}

inline std::vector<DrawnPlan> drawn_plans(const Explained& explained) {
  std::vector<DrawnPlan> drawn;
  for (const ExplainedPart& part : explained.parts)
    add_drawn(drawn, part.title, part.optimised, part.plan.get(), explained.symbols);
  return drawn;
}

// ---- the data of the page -------------------------------------------------------------------------------------------

inline std::string json_list(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const std::string& item : items) text += (text.size() > 1 ? "," : "") + item;
  return text + "]";
}
inline std::string json_string(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}
inline std::string json_number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// The user's source, as far as its files lie where they were compiled.
class SourceFiles {
 public:
  /// The line with two before and after it, numbered; "" where the file is not there.
  std::string around(Location where) {
    if (where.file == nullptr || where.line == 0) return {};
    const std::vector<std::string>& lines = lines_of_file(where.file);
    std::string text;
    for (std::uint32_t line = where.line > 2 ? where.line - 2 : 1; line <= where.line + 2 && line <= lines.size();
         ++line)
      text += (line == where.line ? "> " : "  ") + std::to_string(line) + "  " + lines[line - 1] + "\n";
    return text;
  }

 private:
  const std::vector<std::string>& lines_of_file(const char* path) {
    const auto [place, is_new] = files_.try_emplace(path);
    if (!is_new) return place->second;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line) && place->second.size() < 100'000;) place->second.push_back(line);
    return place->second;
  }
  std::map<std::string, std::vector<std::string>> files_;
};

inline const ProfileRow* row_of(const Profile* profile, const PlanStep& step) {
  if (profile == nullptr) return nullptr;
  const std::string lines = lines_of(step);
  for (const ProfileRow& row : profile->rows)
    if (row.name == step.name && row.lines == lines && row.backend == step.backend) return &row;
  return nullptr;
}

inline std::string kernel_json(const PlanStep& step, const DrawnPlan& drawn, const Profile* profile,
                               SourceFiles& files) {
  const StepCost cost = cost_of(step, drawn.symbols);
  JsonFields fields;
  fields.add("name", step.name).add("backend", step.backend).add("lines", lines_of(step));
  fields.add("kind", step.host ? std::string_view("host") : name(step.kernel.kind));
  fields.add("bytes", static_cast<long long>(cost.bytes)).add("flops", static_cast<long long>(cost.flops));
  if (!step.declined.empty()) fields.add("declined", step.declined);
  if (!step.host) fields.add("kernel", step.kernel.text());
  if (step.executable != nullptr) fields.add("code", step.executable->listing());
  std::string source;
  std::set<std::string> seen;
  for (const Location where : step.where)
    if (seen.insert(where.text()).second)
      if (const std::string around = files.around(where); !around.empty())
        source += (source.empty() ? "" : "\n") + where.text() + "\n" + around;
  fields.add("source", source);
  if (const ProfileRow* row = row_of(profile, step)) {
    fields.raw("ns", json_number(row->nanoseconds / static_cast<double>(std::max<std::int64_t>(1, row->runs))));
    fields.raw("share", json_number(row->share_of_limit)).add("runs", static_cast<long long>(row->runs));
    fields.add("bound", row->is_memory_bound ? "memory" : "compute");
  }
  return fields.object();
}

/// The step that writes the slot, and where it lies in the arena.
inline std::string slots_json(const DrawnPlan& drawn) {
  const Plan& plan = *drawn.plan;
  std::vector<std::int64_t> bytes, offsets;
  for (const ArenaSlot& slot : plan.slots())
    bytes.push_back(std::max<std::int64_t>(0, slot.bytes.evaluate(drawn.symbols)));
  const std::int64_t total = place_slots(plan.slots(), bytes, offsets);
  std::vector<std::string> slots;
  for (std::size_t s = 0; s < plan.slots().size(); ++s) {
    const ArenaSlot& slot = plan.slots()[s];
    JsonFields fields;
    fields.add("first", static_cast<long long>(slot.first)).add("last", static_cast<long long>(slot.last));
    fields.add("bytes", static_cast<long long>(bytes[s])).add("at", static_cast<long long>(offsets[s]));
    const auto first = as_index(std::max(0, slot.first));
    if (first < plan.steps().size())
      fields.add("by", plan.steps()[first].name).add("line", lines_of(plan.steps()[first]));
    slots.push_back(fields.object());
  }
  return JsonFields().add("total", static_cast<long long>(total)).raw("slots", json_list(slots)).object();
}

inline std::string drawn_json(const DrawnPlan& drawn, const Profile* profile, SourceFiles& files) {
  JsonFields fields;
  fields.add("title", drawn.title).add("graph", drawn.graph->text());
  if (drawn.plan == nullptr) return fields.raw("kernels", "[]").raw("borders", "[]").object();
  std::vector<std::string> kernels, borders;
  for (const PlanStep& step : drawn.plan->steps()) kernels.push_back(kernel_json(step, drawn, profile, files));
  for (const PlanBorder& border : borders_of(*drawn.plan))
    borders.push_back(JsonFields()
                          .add("from", border.from)
                          .add("to", border.to)
                          .add("value", border.value)
                          .add("why", border.why)
                          .object());
  fields.add("device", drawn.plan->device().text()).add("plan", drawn.plan->text());
  return fields.raw("kernels", json_list(kernels))
      .raw("borders", json_list(borders))
      .raw("memory", slots_json(drawn))
      .object();
}

inline std::string limits_json(const Profile* profile) {
  std::vector<std::string> devices;
  if (profile != nullptr)
    for (const MachineLimits& limits : profile->limits) {
      std::vector<std::string> streams;
      for (const MachineLimits::Stream& stream : limits.streams)
        streams.push_back(JsonFields()
                              .add("bytes", static_cast<long long>(stream.bytes))
                              .raw("gbs", json_number(stream.gigabytes_per_second))
                              .object());
      devices.push_back(JsonFields()
                            .add("device", limits.device.text())
                            .raw("streams", json_list(streams))
                            .raw("f32", json_number(limits.gigaflops_f32))
                            .raw("f64", json_number(limits.gigaflops_f64))
                            .object());
    }
  return json_list(devices);
}

inline std::string page_of(const Explanation& explanation, const Profile* profile) {
  const Explained nothing;
  const Explained& explained = explanation.parts() != nullptr ? *explanation.parts() : nothing;
  SourceFiles files;
  std::vector<std::string> parts;
  std::string pictures;
  for (const DrawnPlan& drawn : drawn_plans(explained)) {
    pictures += "<div class=\"picture\">" + picture_of(drawn, "graph" + std::to_string(parts.size())) + "</div>\n";
    parts.push_back(drawn_json(drawn, profile, files));
  }
  JsonFields data;
  data.add("line", explained.line).add("guards", explained.guards).add("breaks", explained.breaks);
  data.add("times", explained.times).raw("parts", json_list(parts)).raw("limits", limits_json(profile));
  if (profile != nullptr) data.add("profile", profile->text()).raw("call", json_number(profile->call_nanoseconds));
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sinter: " +
                     escape_xml(explained.line.empty() ? "explain()" : explained.line) + "</title>\n<style>";
  page += page_style + std::string(picture_style) + "</style></head>\n<body>" + page_body;
  page += "<div id=\"pictures\">" + pictures +
          "</div>\n<details id=\"text\"><summary>Everything as text</summary><pre>" + escape_xml(explanation.text()) +
          "</pre></details>\n";
  page += "<script type=\"application/json\" id=\"data\">" + data.object() + "</script>\n<script>" + page_script;
  return page + "</script></body></html>\n";
}

inline void save_page(const std::string& path, const std::string& page, Location where) {
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (!file)
    throw UserError("save_html", "the file '" + path + "' cannot be written", where,
                    "name a file in a folder that exists and may be written to");
}

inline std::string quoted_dot(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : c == '\n' ? "\\n" : std::string(1, c);
  return out + "\"";
}
inline std::string dot_of(const DrawnPlan& drawn, std::size_t number) {
  const std::vector<PictureBox> boxes = boxes_of(drawn);
  const auto node_of = [&](std::size_t i) { return "n" + std::to_string(number) + "_" + std::to_string(i); };
  std::map<int, std::string> groups;
  std::string edges;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    groups[boxes[i].group] += "    " + node_of(i) + " [label=" + quoted_dot(boxes[i].title + "\n" + boxes[i].detail) +
                              ", tooltip=" + quoted_dot(boxes[i].tip) + (boxes[i].is_round ? ", style=rounded" : "") +
                              "];\n";
    for (const std::size_t input : boxes[i].inputs) edges += "  " + node_of(input) + " -> " + node_of(i) + ";\n";
  }
  std::string text = "  // " + drawn.title + "\n";
  for (const auto& [group, members] : groups) {
    if (group < 0) text += members;
    else
      text += "  subgraph cluster_" + std::to_string(number) + "_" + std::to_string(group) + " {\n    label=" +
              quoted_dot("kernel " + std::to_string(group) + ": " + drawn.plan->steps()[as_index(group)].name) + ";\n" +
              members + "  }\n";
  }
  return text + edges;
}

/// The lines of what two versions of a function can differ in: names of kernels stand in for their code.
inline std::vector<std::string> lines_to_compare(const Explanation& explanation) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& section, const std::string& text) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      if (line.find_first_not_of(' ') != std::string::npos)
        lines.push_back(section + ": " + line.substr(line.find_first_not_of(' ')));
  };
  if (explanation.parts() == nullptr) {
    add("call", explanation.text());
    return lines;
  }
  add("guard", explanation.parts()->guards);
  for (const ExplainedPart& part : explanation.parts()->parts) {
    add(part.title, part.optimised.text());
    if (part.plan != nullptr)
      for (const PlanStep& step : part.plan->steps())
        add(part.title + " kernel", step.name + " [" + step.backend + "]");
  }
  return lines;
}

/// Lines of the longest common subsequence stay out; "-" and "+" before the others.
inline std::string line_difference(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  const std::size_t n = before.size(), m = after.size();
  std::vector<std::vector<std::uint32_t>> common(n + 1, std::vector<std::uint32_t>(m + 1, 0));
  for (std::size_t i = n; i-- > 0;)
    for (std::size_t j = m; j-- > 0;)
      common[i][j] = before[i] == after[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::string text;
  for (std::size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && before[i] == after[j]) ++i, ++j;
    else if (j == m || (i < n && common[i + 1][j] >= common[i][j + 1])) text += "- " + before[i++] + "\n";
    else text += "+ " + after[j++] + "\n";
  }
  return text;
}
}  // namespace jit_detail

SINTER_DECL std::string Explanation::html() const { return jit_detail::page_of(*this, nullptr); }
SINTER_DECL std::string Explanation::html(const Profile& profile) const { return jit_detail::page_of(*this, &profile); }
SINTER_DECL void Explanation::save_html(const std::string& path, Location where) const {
  jit_detail::save_page(path, html(), where);
}
SINTER_DECL void Explanation::save_html(const std::string& path, const Profile& profile, Location where) const {
  jit_detail::save_page(path, html(profile), where);
}
SINTER_DECL std::string Explanation::dot() const {
  std::string text = "digraph sinter {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  std::size_t number = 0;
  if (parts_ != nullptr)
    for (const jit_detail::DrawnPlan& drawn : jit_detail::drawn_plans(*parts_))
      text += jit_detail::dot_of(drawn, number++);
  return text + "}\n";
}
SINTER_DECL std::string Explanation::svg() const {
  if (parts_ == nullptr || parts_->parts.empty()) return jit_detail::draw_boxes({}, "graph");
  return jit_detail::picture_of(jit_detail::drawn_plans(*parts_).front(), "graph");
}
SINTER_DECL std::string diff(const Explanation& before, const Explanation& after) {
  return jit_detail::line_difference(jit_detail::lines_to_compare(before), jit_detail::lines_to_compare(after));
}

}  // namespace jit
SINTER_NAMESPACE_END
