// Shows where the time of a function goes: a profile, the page of explain(), and a timeline of a few steps. Writes
// observe.html and observe.json into the current folder, or into the one that is named.
#include <sinter/sinter.hpp>

#include <iostream>
#include <string>

using namespace sinter;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? std::string(argv[1]) + "/" : "";
  auto block = jit::compile([](Tensor x, Tensor w1, Tensor w2) {
    Tensor hidden = gelu(matmul(x, w1));
    Tensor added = matmul(hidden, w2) + x;
    Tensor centred = added - mean(added, 1, keepdim);
    return Tensor(centred / sqrt(mean(centred * centred, 1, keepdim) + 1e-5f));
  });
  const Tensor x = randn({256, 128}), w1 = randn({128, 512}), w2 = randn({512, 128});

  jit::start_trace(folder + "observe.json");
  for (int step = 0; step < 3; ++step) {
    const auto mark = jit::annotate("step " + std::to_string(step));
    block(x, w1, w2);
  }
  jit::stop_trace();

  const jit::Profile profile = jit::profile({.seconds = 0.1}, block, x, w1, w2);
  block.explain(x, w1, w2).save_html(folder + "observe.html", profile);
  std::cout << profile.rows.size() << " kernels; the first is " << profile.rows[0].name << "\n"
            << "wrote observe.json and observe.html\n";
}
