// Shows what becomes of a small function: explain() prints guards, graphs, the plan and the machine code; then the
// passes, on a graph written as text.
#include <sinter/graphs.hpp>

#include <iostream>
#include <string>

using namespace sinter;

namespace {

/// The first lines of `text`.
std::string head(const std::string& text, int lines) {
  std::size_t end = 0;
  while (lines-- > 0 && end < text.size()) {
    std::size_t next = text.find('\n', end);
    end = next == std::string::npos ? text.size() : next + 1;
  }
  return text.substr(0, end) + (end < text.size() ? "...\n" : "");
}

}  // namespace

int main() {
  Tensor x = zeros({8, 64}), w = zeros({64, 32}), b = zeros({32});
  auto layer = jit::compile([](Tensor x, Tensor w, Tensor b) { return softmax(relu(matmul(x, w) + b), 1); });
  const std::string text = layer.explain(x, w, b).text();
  const std::size_t code = text.find("code of ");
  std::cout << text.substr(0, code);
  if (code != std::string::npos) std::cout << head(text.substr(code), 24);

  std::cout << "---- the passes\n";
  PipelineOptions options;
  options.observe = [](std::string_view pass, const Graph& graph, double) {
    std::cout << pass << ": " << graph.nodes().size() << " nodes\n";
  };
  Graph written = parse_graph(
      "graph(%0: f32[16, 64]) { %1: f32[16, 64] = log_softmax(%0) {axes=[1]}; %2: f32[16, 64] = mul(%1, 1); return %2 "
      "}");
  std::cout << written.text() << "\n";
  std::cout << run_pipeline(written, options).text() << "\n";
}
