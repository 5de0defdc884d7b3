// Trains two small networks on the UCI handwritten digits, reports test accuracy, compares the ways to run one training
// step, and draws the loss curves and the misread digits.
#include "data.hpp"
#include "eigen_mlp.hpp"
#include "models.hpp"
#include "picture.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

using namespace sinter;

namespace {

struct Settings {
  std::string data = SINTER_EXAMPLES_DATA "/digits.csv";
  std::string output = "demo_output";
  std::string device = "cpu";
  int epochs = 25;
};

constexpr std::int64_t batch_size = 64;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Tensor pixels_of(const Digits& digits) { return copy_of(digits.pixels, {digits.count(), 64}); }
Tensor labels_of(const Digits& digits) { return copy_of(digits.labels, {digits.count()}); }

template <class Predict>
double accuracy(const Predict& predict, const Digits& digits) {
  std::vector<std::int64_t> guesses = to_vector<std::int64_t>(predict(pixels_of(digits)));
  std::int64_t right = 0;
  for (std::size_t i = 0; i < guesses.size(); ++i) right += guesses[i] == digits.labels[i];
  return static_cast<double>(right) / static_cast<double>(digits.count());
}

/// Trains `net`; gives the mean loss per epoch.
template <class Net>
Curve train(const char* name, const Net& net, const Digits& data, const Digits& test, int epochs) {
  auto step = jit::compile([](const Net& n, Tensor x, Tensor y, Scalar lr) { return training_step(n, x, y, lr); });
  auto predict = jit::compile([net](Tensor x) { return argmax(net(x), 1); });
  std::vector<std::int64_t> order(static_cast<std::size_t>(data.count()));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 shuffle(1);
  Curve curve{name, {}};
  double start = seconds_now();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), shuffle);
    double total = 0;
    std::int64_t batches = data.count() / batch_size;
    for (std::int64_t i = 0; i < batches; ++i) {
      Digits part = batch(data, order, i * batch_size, batch_size);
      Tensor loss = step(net, pixels_of(part), labels_of(part), 0.3 / (1 + 0.05 * epoch));
      total += item<double>(loss);
    }
    curve.values.push_back(total / static_cast<double>(batches));
    std::printf("\r%-4s epoch %2d/%d [", name, epoch + 1, epochs);
    for (int i = 0; i < 24; ++i) std::putchar(i * epochs < (epoch + 1) * 24 ? '#' : '.');
    std::printf("] loss %.4f  train %.2f %%  test %.2f %%", curve.values.back(), 100 * accuracy(predict, data),
                100 * accuracy(predict, test));
    std::fflush(stdout);
  }
  jit::Stats stats = step.stats();
  std::printf("\n%-4s trained in %.2f s; the step is %lld kernels, compiled in %.1f ms\n", name, seconds_now() - start,
              static_cast<long long>(stats.kernels), stats.compile_ms);
  return curve;
}

/// Median microseconds of `call`, with the work that it leaves on a GPU.
template <class F>
double median_us(F&& run) {
  auto call = [&] {
    run();
    if (default_device() != Device::cpu()) cuda::synchronize(default_device());
  };
  call();
  call();
  call();
  std::vector<double> times;
  double start = seconds_now();
  while (seconds_now() - start < 0.7 || times.size() < 5) {
    double t = seconds_now();
    call();
    times.push_back((seconds_now() - t) * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

void compare_ways(const Digits& train_data) {
  std::vector<std::int64_t> order(batch_size);
  std::iota(order.begin(), order.end(), 0);
  Digits part = batch(train_data, order, 0, batch_size);
  Tensor x = pixels_of(part), y = labels_of(part);
  auto function = [](const Mlp& n, Tensor in, Tensor labels, Scalar lr) { return training_step(n, in, labels, lr); };
  struct Line {
    const char* way;
    double us;
    double compile_ms;
    long long kernels;
  };
  std::vector<Line> lines;
  auto compiled_line = [&](const char* way, jit::Options options) {
    Mlp net;
    auto step = jit::compile(function, options);
    double us = median_us([&] { eval(step(net, x, y, 0.01)); });
    lines.push_back({way, us, step.stats().compile_ms, static_cast<long long>(step.stats().kernels)});
  };
  const bool is_on_cpu = default_device() == Device::cpu();
  if (is_on_cpu) compiled_line("reference back end", {.backend = "reference"});
  {
    Mlp net;
    bool was_eager = Context::get().is_eager;
    Context::get().is_eager = true;  // as SINTER_EAGER=1: every operation runs as soon as it is written
    double us = median_us([&] { eval(training_step(net, x, y, 0.01)); });
    Context::get().is_eager = was_eager;
    lines.push_back({"op by op", us, 0, 0});
  }
  compiled_line("compiled", {});
  const double compiled = lines.back().us;
  {
    Mlp net;
    EigenMlp peer(64, 128, 10, to_vector<float>(net.w1).data(), to_vector<float>(net.w2).data());
    // Both must learn the same: the peer's loss after ten steps is compared before anything is timed.
    auto step = jit::compile(function);
    float ours = 0, theirs = 0;
    for (int i = 0; i < 10; ++i)
      ours = item<float>(step(net, x, y, 0.1)),
      theirs = peer.step(part.pixels.data(), part.labels.data(), batch_size, 0.1f);
    if (!(std::abs(ours - theirs) < 1e-3f))
      throw std::runtime_error("the Eigen peer computes another loss: " + std::to_string(theirs) + " against " +
                               std::to_string(ours));
    double us = median_us([&] { peer.step(part.pixels.data(), part.labels.data(), batch_size, 0.01f); });
    lines.push_back({"Eigen by hand", us, 0, 0});
  }
  const std::string where = is_on_cpu ? std::to_string(thread_count()) + " threads"
                                      : cuda::device_info(default_device()).name + "; Eigen on the CPU";
  std::printf("\none training step of the MLP (batch %lld, 64-128-10, %s)\n", static_cast<long long>(batch_size),
              where.c_str());
  std::printf("%-20s %12s %22s %12s %8s\n", "way", "us per step", "compiled is faster by", "compile ms", "kernels");
  for (const Line& line : lines) {
    std::printf("%-20s %12.1f %21.2fx", line.way, line.us, line.us / compiled);
    if (line.kernels > 0) std::printf(" %12.1f %8lld", line.compile_ms, line.kernels);
    std::printf("\n");
  }
}

void draw_misread(const std::string& path, const Mlp& mlp, const Digits& test) {
  std::vector<std::int64_t> guesses = to_vector<std::int64_t>(argmax(mlp(pixels_of(test)), 1));
  std::vector<Misread> misread;
  for (std::size_t i = 0; i < guesses.size(); ++i)
    if (guesses[i] != test.labels[i])
      misread.push_back({test.pixels.data() + i * 64, static_cast<int>(test.labels[i]), static_cast<int>(guesses[i])});
  write_misread(path, misread);
}

int run(const Settings& settings) {
  // The one line that puts the whole program on a GPU: what names no device is made there.
  if (settings.device != "cpu")
    set_default_device(Device::cuda(settings.device.size() > 5 ? std::atoi(settings.device.c_str() + 5) : 0));
  Digits all = read_digits(settings.data), train_data, test;
  split(all, 297, train_data, test);
  std::printf("digits: %lld to train, %lld to test\n", static_cast<long long>(train_data.count()),
              static_cast<long long>(test.count()));
  manual_seed(3);
  Mlp mlp;
  Cnn cnn;
  std::vector<Curve> curves{train("MLP", mlp, train_data, test, settings.epochs),
                            train("CNN", cnn, train_data, test, settings.epochs)};
  auto final_accuracy = [&](const auto& net) {
    return accuracy([&](const Tensor& x) { return argmax(net(x), 1); }, test);
  };
  double mlp_accuracy = final_accuracy(mlp), cnn_accuracy = final_accuracy(cnn);
  std::printf("test accuracy: MLP %.2f %%, CNN %.2f %%\n", 100 * mlp_accuracy, 100 * cnn_accuracy);
  compare_ways(train_data);
  std::filesystem::create_directories(settings.output);
  write_curves(settings.output + "/loss.svg", "mean training loss", curves);
  draw_misread(settings.output + "/misread.svg", mlp, test);
  std::printf("pictures: %s/loss.svg, %s/misread.svg\n", settings.output.c_str(), settings.output.c_str());
  bool passed = mlp_accuracy >= 0.97 && cnn_accuracy >= 0.97;
  if (!passed) std::printf("test accuracy is below 97 %%\n");
  return passed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto value = [&]() -> std::string {
      if (i + 1 >= argc) {
        std::fprintf(stderr, "%s needs a value\n", arg.c_str());
        std::exit(2);
      }
      return argv[++i];
    };
    if (arg == "--help") {
      std::printf("usage: digits [--data FILE] [--output FOLDER] [--epochs N] [--device cpu|cuda|cuda:1]\n");
      return 0;
    }
    if (arg == "--epochs") settings.epochs = std::max(1, std::atoi(value().c_str()));
    else if (arg == "--output") settings.output = value();
    else if (arg == "--data") settings.data = value();
    else if (arg == "--device") {
      settings.device = value();
      const bool is_gpu =
          settings.device.rfind("cuda", 0) == 0 && (settings.device.size() == 4 || settings.device[4] == ':');
      if (settings.device != "cpu" && !is_gpu) {
        std::fprintf(stderr, "unknown device '%s'; see --help\n", settings.device.c_str());
        return 2;
      }
    } else {
      std::fprintf(stderr, "unknown option %s; see --help\n", arg.c_str());
      return 2;
    }
  }
  try {
    return run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
