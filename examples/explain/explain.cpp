// Shows what becomes of a small function: explain() prints guards, graphs and the plan; the second half walks the same way
// by hand, from the text of a graph to the machine code of its kernels.
#include <sinter/sinter.hpp>

#include <iostream>

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

void print_code(const Graph& graph) {
  PlanOptions options;
  options.backends = jit::host_backends();
  std::shared_ptr<const Plan> plan = build_plan(graph, options);
  for (const PlanStep& step : plan->steps()) {
    std::string code = step.executable != nullptr ? step.executable->listing() : "";
    std::cout << "kernel " << step.name << ", code of the " << step.backend << " back end:\n"
              << (code.empty() ? "(it interprets the kernel)\n" : head(code, 24));
  }
}

}  // namespace

int main() {
  Tensor x = zeros({8, 64}), w = zeros({64, 32}), b = zeros({32});
  auto layer = jit::compile([](Tensor x, Tensor w, Tensor b) { return relu(matmul(x, w) + b); });
  std::cout << "---- explain\n" << layer.explain(x, w, b);

  std::cout << "---- a graph as text, before and after the passes\n";
  Graph written = parse_graph(R"(graph(%0: f32[16, 64]) {
    %1: f32[16, 64] = softmax(%0) {axes=[1]}
    return %1
  })");
  Graph optimised = run_pipeline(written);
  std::cout << written.text() << "\n" << optimised.text() << "\n---- its machine code\n";
  print_code(optimised);
}
