// Runs the instructions of a log again, and compares times: what tools/replay builds.
#include <sinter/debug.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

using namespace sinter;

namespace {

struct Arguments {
  std::string path, backend;
  std::int64_t graph = -1, repeat = 5, top = 40;
};

/// Lines that say the same of a kernel.
struct Row {
  jit::Instruction first;
  std::vector<std::int64_t> times{};  // nanoseconds of its runs in the log
  jit::Replayed again{};
  double runs() const { return static_cast<double>(times.size()); }
  /// Of a run: the median, which others on the machine disturb least.
  double logged() const {
    std::vector<std::int64_t> sorted = times;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return static_cast<double>(*middle);
  }
};

[[noreturn]] void fail(const std::string& why) {
  std::cerr << "replay: " << why << "\n";
  std::exit(1);
}
std::int64_t number_of(std::string_view option, std::string_view text, std::int64_t least) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    fail(std::string(option) + " takes a whole number from " + std::to_string(least) + " on, not '" +
         std::string(text) + "'");
  return value;
}
Arguments arguments_of(int count, char** values) {
  Arguments out;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = values[i];
    if (!word.starts_with("--")) {
      if (!out.path.empty()) fail("one log at a time: " + out.path + " and " + std::string(word));
      out.path = word;
      continue;
    }
    if (++i >= count) fail(std::string(word) + " needs a value");
    if (word == "--graph") out.graph = number_of(word, values[i], 0);
    else if (word == "--repeat") out.repeat = number_of(word, values[i], 1);
    else if (word == "--top") out.top = number_of(word, values[i], 1);
    else if (word == "--backend") out.backend = values[i];
    else fail("there is no option " + std::string(word));
  }
  if (out.path.empty()) fail("name a log");
  return out;
}

std::vector<Row> rows_of(const Arguments& arguments) {
  std::map<std::string, std::size_t> places;
  std::vector<Row> rows;
  bool has_graph = false;
  for (jit::Instruction& each : jit::read_instruction_log(arguments.path)) {
    if (arguments.graph >= 0 && each.graph != arguments.graph) continue;
    has_graph = true;
    const std::string key =
        each.kernel + "\n" + each.device + "\n" + each.backend + "\n" + each.lines + "\n" + each.text;
    const auto [place, is_new] = places.try_emplace(key, rows.size());
    const std::int64_t time = each.nanoseconds;
    if (is_new) rows.push_back({std::move(each)});
    rows[place->second].times.push_back(time);
  }
  if (arguments.graph >= 0 && !has_graph) fail("no line has graph=" + std::to_string(arguments.graph));
  return rows;
}

void print(const std::vector<Row>& rows, std::int64_t top) {
  std::printf("   logged us    again us   ratio   runs  kernel\n");
  double logged = 0, again = 0, left_out = 0;
  std::int64_t shown = 0, skipped = 0;
  for (const Row& row : rows) {
    const bool is_skipped = !row.again.skipped.empty(), is_control = row.first.kind == "control";
    const double before = row.logged() * row.runs();
    skipped += is_skipped;
    if (is_skipped && !is_control) left_out += before;
    if (!is_skipped) logged += before, again += row.again.nanoseconds * row.runs();
    if (++shown > top) continue;
    const std::string head =
        row.first.kernel + " [" + row.first.backend + "]" + (row.first.lines.empty() ? "" : " from " + row.first.lines);
    if (is_skipped)
      std::printf("%12.3f %11s %7s %6zu  %s: not run again: %s\n", row.logged() / 1e3, "-", "-", row.times.size(),
                  head.c_str(), row.again.skipped.c_str());
    else
      std::printf("%12.3f %11.3f %7.2f %6zu  %s\n", row.logged() / 1e3, row.again.nanoseconds / 1e3,
                  row.again.nanoseconds / std::max(row.logged(), 1.0), row.times.size(), head.c_str());
  }
  if (shown > top) std::printf("(%lld rows more: --top)\n", static_cast<long long>(shown - top));
  std::printf("%12.3f %11.3f %7.2f         all runs of %zu kernels\n", logged / 1e3, again / 1e3,
              again / std::max(logged, 1.0), rows.size() - static_cast<std::size_t>(skipped));
  if (skipped > 0)
    std::printf("%lld not run again, %.3f us in the log\n", static_cast<long long>(skipped), left_out / 1e3);
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = arguments_of(count, values);
  try {
    std::vector<Row> rows = rows_of(arguments);
    for (Row& row : rows)
      row.again = jit::replay(row.first, {.repeat = arguments.repeat, .backend = arguments.backend});
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.logged() * a.runs() > b.logged() * b.runs(); });
    print(rows, arguments.top);
  } catch (const Error& error) { fail(error.what()); }
}
