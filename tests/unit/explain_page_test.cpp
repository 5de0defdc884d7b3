// explain() as a page, as pictures and as a difference. What a browser makes of the page is tested by page_test.py.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/io/json.hpp>
#include <sinter/sinter.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

using namespace sinter;
using io::io_detail::Json;

namespace {

/// The data in a page.
Json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(begin);
  REQUIRE(at != std::string::npos);
  const std::size_t end = page.find("</script>", at);
  return io::io_detail::parse_json(page.substr(at + begin.size(), end - at - begin.size()));
}
std::string text_at(const Json& json, const std::string& name) {
  const Json* found = json.find(name);
  return found == nullptr ? "no " + name : found->text;
}
const Json& part_of(const Json& data, std::size_t i) { return data.find("parts")->parts.at(i).value; }
std::size_t count_of(const Json& part, const char* list) { return part.find(list)->parts.size(); }

/// Every element of an XML text is closed, in order.
bool is_balanced(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.back() == '/') continue;
    if (tag[0] != '/') open.push_back(tag.substr(0, tag.find(' ')));
    else if (open.empty() || open.back() != tag.substr(1)) return false;
    else open.pop_back();
  }
  return open.empty();
}

}  // namespace

TEST_CASE("page: kernels with costs and code, borders with reasons, memory, and nothing from elsewhere") {
  auto f = jit::compile([](Tensor x, Tensor w) {
    Tensor y = matmul(x, w);            // first
    return Tensor(matmul(tanh(y), w));  // second
  });
  const int line = __LINE__ - 3;
  const Tensor x = ones({64, 64}), w = ones({64, 64});
  const jit::Explanation explanation = f.explain(x, w);
  const std::string page = explanation.html();
  CHECK(page.substr(0, 15) == "<!DOCTYPE html>");
  for (const char* external : {"http://", "https://", "src=", "@import", "url("}) {
    std::string without = page;  // the names of XML's own spaces are no addresses
    for (std::size_t at; (at = without.find("http://www.w3.org/")) != std::string::npos;) without.erase(at, 18);
    INFO(external);
    CHECK_FALSE(has(without, external));
  }
  const Json data = data_of(page);
  REQUIRE(count_of(data, "parts") == 1);
  const Json& part = part_of(data, 0);
  CHECK(text_at(part, "title") == "function");
  REQUIRE(count_of(part, "kernels") == 2);
  const Json& first = part.find("kernels")->parts[0].value;
  CHECK(text_at(first, "kind") == "contraction");
  CHECK(has(text_at(first, "lines"), "explain_page_test.cpp:" + std::to_string(line)));
  CHECK(has(text_at(first, "source"), "Tensor y = matmul(x, w);"));
  CHECK_FALSE(text_at(first, "code").empty());
  CHECK(first.find("ns") == nullptr);
  REQUIRE(count_of(part, "borders") == 1);
  CHECK(text_at(part.find("borders")->parts[0].value, "why") == "each is a product of matrices: a kernel has one");
  CHECK(count_of(*part.find("memory"), "slots") == 1);
  CHECK(text_at(*part.find("memory"), "total") == std::to_string(64 * 64 * 4));
  CHECK(is_balanced(explanation.svg()));

  const jit::Profile profile = jit::profile({.seconds = 0.02, .counters = false}, f, x, w);
  const Json measured = data_of(explanation.html(profile));
  const Json& timed = part_of(measured, 0).find("kernels")->parts[0].value;
  CHECK(std::stod(text_at(timed, "ns")) > 0);
  CHECK(std::stod(text_at(timed, "share")) > 0);
  CHECK(count_of(measured, "limits") == 1);
}

TEST_CASE("page: trace trees, gradients, control flow and calls that run uncompiled") {
  auto tree = jit::compile([](Tensor x) { return item(sum(x)) > 0 ? Tensor(exp(x)) : Tensor(sin(x)); });
  tree(ones({4}));
  tree(ones({4}) * -1);
  const Json data = data_of(tree.explain(ones({4})).html());
  CHECK(has(text_at(data, "breaks"), "reads an outcome"));
  REQUIRE(count_of(data, "parts") == 3);
  CHECK(has(text_at(part_of(data, 0), "title"), "segment 1, up to where"));

  Variable v(ones({8}));
  v.requires_grad();
  auto trained = jit::compile([&](Tensor x) { return sum(tanh(x * v)); });
  Tensor loss = trained(ones({8}));
  loss.backward();
  const Json gradient = data_of(trained.explain(ones({8})).html());
  REQUIRE(count_of(gradient, "parts") == 2);
  CHECK(text_at(part_of(gradient, 0), "title") == "forward");
  CHECK(text_at(part_of(gradient, 1), "title") == "backward");
  CHECK(count_of(part_of(gradient, 1), "kernels") > 0);

  auto loop = jit::compile(
      [](Tensor x) { return jit::fori_loop(0, 3, [](Scalar, Tensor y) { return Tensor(tanh(y) * 2); }, x); });
  const Json looped = data_of(loop.explain(ones({8})).html());
  REQUIRE(count_of(looped, "parts") == 2);
  CHECK(has(text_at(part_of(looped, 1), "title"), ", body of "));

  auto plain = jit::compile([](Tensor x) { return exp(x); }, {.backend = "noop"});
  const jit::Explanation none = plain.explain(ones({4}));
  CHECK(count_of(data_of(none.html()), "parts") == 0);
  CHECK(has(none.html(), "runs the function uncompiled"));
  CHECK(none.dot() == "digraph sinter {\n  node [shape=box, fontname=\"sans-serif\"];\n}\n");
  CHECK(is_balanced(none.svg()));
}

TEST_CASE("page: why kernels stay apart") {
  const auto why = [](auto f, const auto&... args) {
    std::string text;
    const Json data = data_of(jit::compile(f).explain(args...).html());
    for (const auto& [none, border] : part_of(data, 0).find("borders")->parts) text += text_at(border, "why") + "\n";
    return text;
  };
  CHECK(has(why([](Tensor x) { return sum(matmul(x, x), 1); }, ones({64, 64})), "no reduction"));
  CHECK(has(why([](Tensor x) { return matmul(cumsum(x, 1), x); }, ones({64, 64})), "product of matrices"));
  CHECK(has(why([](Tensor x) { return cumsum(x / sum(x, 1, keepdim), 1); }, ones({64, 64})), "scan"));
  CHECK(why([](Tensor x) { return exp(x) + 1; }, ones({64})).empty());  // a near miss: one kernel
  const jit::Explanation unfused =
      jit::compile([](Tensor x) { return exp(x) + 1; }, {.fuse = false}).explain(ones({4}));
  CHECK(has(unfused.html(), "fusion is off"));
}

TEST_CASE("pictures: DOT groups nodes by kernel; names are escaped") {
  auto f = jit::compile([](Tensor x) { return matmul(exp(x), x) + 1; });
  const std::string dot = f.explain(ones({8, 8})).dot();
  CHECK(has(dot, "subgraph cluster_0_"));
  CHECK(has(dot, " -> "));
  CHECK(has(dot, "exp\\nf32[8, 8]"));
  const std::string svg = f.explain(ones({8, 8})).svg();
  CHECK(is_balanced(svg));
  CHECK(occurrences(svg, "class=\"box") >= 4);
  CHECK(occurrences(svg, "class=\"edge\"") >= 4);
}

TEST_CASE("pictures and differences of what is not there") {
  auto plain = jit::compile([](Tensor x) { return exp(x); }, {.backend = "noop"});  // no plan to draw
  const jit::Explanation none = plain.explain(ones({4}));
  CHECK(none.dot() == "digraph sinter {\n  node [shape=box, fontname=\"sans-serif\"];\n}\n");
  CHECK(is_balanced(none.svg()));
  CHECK(occurrences(none.svg(), "class=\"box") == 0);
  CHECK(diff(none, none).empty());
  auto f = jit::compile([](Tensor x) { return exp(x); });
  const jit::Explanation some = f.explain(ones({4}));
  CHECK(has(diff(none, some), "+ function: %1: f32[4] = exp(%0)"));
  CHECK(has(diff(some, none), "- function: %1: f32[4] = exp(%0)"));
  auto bad = jit::compile([](Tensor x) { return matmul(x, x); });  // a mistake is the function's, as in a call
  CHECK_THROWS_AS(bad.explain(ones({2, 3})), ShapeError);
  CHECK(has(bad.explain(ones({3, 3})).dot(), "matmul"));
}

TEST_CASE("diff of explanations: what one has and the other has not") {
  auto f = jit::compile([](Tensor x) { return exp(x) + 1; }, {.dynamic = jit::Dynamic::never});
  const jit::Explanation before = f.explain(ones({4})), again = f.explain(ones({4})), after = f.explain(ones({8}));
  CHECK(diff(before, again).empty());
  const std::string sizes = diff(before, after);
  CHECK(has(sizes, "- guard: argument 0: f32[4] dense\n"));
  CHECK(has(sizes, "+ guard: argument 0: f32[8] dense\n"));
  auto g = jit::compile([](Tensor x) { return sin(x) + 1; }, {.dynamic = jit::Dynamic::never});
  const std::string ops = diff(before, g.explain(ones({4})));
  CHECK(has(ops, "- function: %1: f32[4] = exp(%0)"));
  CHECK(has(ops, "+ function: %1: f32[4] = sin(%0)"));
  CHECK(has(ops, "+ function kernel: "));
  CHECK_FALSE(has(ops, "guard"));
}

TEST_CASE("save_html: writes the page, and says what it cannot write") {
  auto f = jit::compile([](Tensor x) { return exp(x); });
  const jit::Explanation explanation = f.explain(ones({4}));
  const auto path = std::filesystem::temp_directory_path() / ("page" + std::to_string(::getpid()) + ".html");
  explanation.save_html(path.string());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == explanation.html());
  std::filesystem::remove(path);
  CHECK(blame_of([&] { explanation.save_html("/nowhere/page.html"); }) == blame("save_html"));
  CHECK(
      has(message_of([&] { explanation.save_html("/nowhere/page.html"); }), "'/nowhere/page.html' cannot be written"));
}
