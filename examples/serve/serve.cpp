// A model that is compiled in one program and served by another: `serve build` makes a small decoder, calls it, and
// saves its two functions with their shared cache; `serve` loads them, without the code of the model, and answers.
#include <sinter/sinter.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

using namespace sinter;

namespace {

constexpr std::int64_t width = 32, vocabulary = 24, positions = 16;
const std::string model_path = "serve_example.model";

/// What only the first program knows: how the model computes.
struct Decoder {
  Tensor embedding = randn({vocabulary, width}), mix = randn({width, width}) * 0.3f, out = randn({width, vocabulary});
  Variable state{zeros({width}), "state"};

  Tensor advance(const Tensor& token) const {
    const Tensor x = take(embedding, token, 0);
    state = tanh(matmul(state.value() + x, mix));
    return argmax(matmul(state, out), 0);
  }
};

int build() {
  manual_seed(11);
  const Decoder decoder;
  auto prefill = jit::compile([&](const Tensor& prompt) {
    decoder.state = tanh(matmul(mean(take(decoder.embedding, prompt, 0), 0), decoder.mix));
    return argmax(matmul(decoder.state, decoder.out), 0);
  });
  auto decode = jit::compile([&](const Tensor& token) { return decoder.advance(token); });
  Tensor prompt = tensor({1, 5, 7});
  jit::mark_dynamic(prompt, 0, {2, positions});  // prompts of any length up to that
  decode(prefill(prompt));
  jit::save({{"prefill", prefill}, {"decode", decode}}, model_path);
  std::cout << "saved" << std::endl;
  return 0;
}

int serve() {
  const jit::FunctionFile model(model_path);
  auto prefill = model.load<Tensor(Tensor)>("prefill");
  auto decode = model.load<Tensor(Tensor)>("decode");
  for (const std::vector<int>& prompt : {std::vector<int>{1, 5, 7}, {2, 3, 4, 9, 20}, {8, 8}}) {
    Tensor token = prefill(copy_of(prompt));
    bool is_in_range = true;
    for (int i = 0; i < 4; ++i) {
      const auto id = item<std::int64_t>(token);
      is_in_range = is_in_range && id >= 0 && id < vocabulary;
      token = decode(token);
    }
    std::cout << "prompt of " << prompt.size() << ": 4 tokens" << (is_in_range ? "" : ", not all of them words")
              << "\n";
  }
  std::cout << "compiled: " << prefill.stats().compiles << " prefill, " << decode.stats().compiles << " decode\n";
  try {
    prefill(zeros({positions + 1}, {.dtype = DType::i32}));
  } catch (const RecompileError& error) {
    std::cout << (std::string(error.what()).find("guard 'range' failed") != std::string::npos ? "too long a prompt\n"
                                                                                              : error.what());
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::string(arguments[1]) == "build") return build();
  if (std::system(("\"" + std::string(arguments[0]) + "\" build").c_str()) != 0) return 1;
  const int status = serve();
  std::filesystem::remove(model_path);
  return status;
}
