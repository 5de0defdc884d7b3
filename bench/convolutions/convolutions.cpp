// Compiled convolutions that run when they are told to, line by line on standard input, so that a program that has
// another library (compare.py beside this file) can time both in turns.
#include <sinter/sinter.hpp>

#include <cstdint>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

/// Numbers as the caller has them. Axes in front of those in use are 1.
struct Layer {
  std::int64_t axes, images, channels, outputs, groups, is_transposed;
  std::int64_t extent[3], taps[3], stride[3], padding[3], dilation[3];
};
enum Kind : std::int64_t { result, result_and_relu, by_image, by_weight };

struct Row {
  std::vector<Tensor> arguments;  // image, weight, bias, the result's gradient
  std::function<Tensor()> call;
  Tensor last;
};

std::vector<std::int64_t> in_use(const std::int64_t (&all)[3], std::int64_t axes) { return {all + 3 - axes, all + 3}; }

Tensor convolve(const Layer& layer, const Tensor& x, const Tensor& w, const Tensor* bias) {
  const auto stride = in_use(layer.stride, layer.axes), padding = in_use(layer.padding, layer.axes),
             dilation = in_use(layer.dilation, layer.axes);
  const Optional<Tensor> added = bias != nullptr ? Optional<Tensor>(*bias) : Optional<Tensor>();
  if (layer.is_transposed != 0) {
    const ConvTransposeOptions options{
        .stride = stride, .padding = padding, .dilation = dilation, .groups = layer.groups, .bias = added};
    return layer.axes == 1   ? conv_transpose1d(x, w, options)
           : layer.axes == 2 ? conv_transpose2d(x, w, options)
                             : conv_transpose3d(x, w, options);
  }
  const ConvOptions options{
      .stride = stride, .padding = ConvPadding(padding), .dilation = dilation, .groups = layer.groups, .bias = added};
  return layer.axes == 1 ? conv1d(x, w, options) : layer.axes == 2 ? conv2d(x, w, options) : conv3d(x, w, options);
}

Tensor noise(std::vector<std::int64_t> extents) {
  Tensor made = randn(Shape(std::move(extents)));
  eval(made);
  return made;
}

Row make_row(const Layer& layer, Kind kind) {
  const auto extent = in_use(layer.extent, layer.axes), taps = in_use(layer.taps, layer.axes);
  std::vector<std::int64_t> image{layer.images, layer.channels}, weight{layer.outputs, layer.channels / layer.groups};
  if (layer.is_transposed != 0) weight = {layer.channels, layer.outputs / layer.groups};
  image.insert(image.end(), extent.begin(), extent.end());
  weight.insert(weight.end(), taps.begin(), taps.end());
  Row row;
  row.arguments = {noise(image), noise(weight), noise({layer.outputs})};
  Tensor bias = row.arguments[2];
  const Tensor out = convolve(layer, row.arguments[0], row.arguments[1], nullptr);
  row.arguments.push_back(randn(out.shape()));
  eval(row.arguments.back());
  const auto bind = [&row](auto compiled, std::size_t first, std::size_t second, std::size_t third) {
    row.call = [=, a = row.arguments[first], b = row.arguments[second], c = row.arguments[third]]() mutable {
      return compiled(a, b, c);
    };
  };
  if (kind == result)
    bind(jit::compile([=](Tensor x, Tensor w, Tensor) { return convolve(layer, x, w, nullptr); }), 0, 1, 2);
  if (kind == result_and_relu)
    bind(jit::compile([=](Tensor x, Tensor w, Tensor b) { return Tensor(relu(convolve(layer, x, w, &b))); }), 0, 1, 2);
  if (kind == by_image)
    bind(
        jit::compile([=](Tensor x, Tensor w, Tensor gradient) {
          return jit::grad([&](Tensor image) { return Tensor(sum(convolve(layer, image, w, nullptr) * gradient)); })(x);
        }),
        0, 1, 3);
  if (kind == by_weight)
    bind(jit::compile([=](Tensor x, Tensor w, Tensor gradient) {
           return jit::grad([&](Tensor own) { return Tensor(sum(convolve(layer, x, own, nullptr) * gradient)); })(w);
         }),
         0, 1, 3);
  row.last = row.call();
  eval(row.last);
  return row;
}

void write(const Tensor& numbers, const std::string& file) {
  const auto data = numbers.data<float>();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size_bytes()));
}

/// A layer and what is wanted of it, as numbers; then a folder that gets the arguments and the result.
Row read_row() {
  Layer layer;
  std::int64_t kind = 0;
  std::string folder;
  for (std::int64_t* number :
       {&layer.axes, &layer.images, &layer.channels, &layer.outputs, &layer.groups, &layer.is_transposed})
    std::cin >> *number;
  for (auto* numbers : {&layer.extent, &layer.taps, &layer.stride, &layer.padding, &layer.dilation})
    for (std::int64_t& number : *numbers) std::cin >> number;
  std::cin >> kind >> folder;
  Row row = make_row(layer, static_cast<Kind>(kind));
  for (std::size_t i = 0; i < row.arguments.size(); ++i) write(row.arguments[i], folder + "/" + std::to_string(i));
  write(row.last, folder + "/result");
  return row;
}

double seconds_on(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double seconds_of(Row& row, std::int64_t calls, clockid_t clock) {
  const double begin = seconds_on(clock);
  for (std::int64_t i = 0; i < calls; ++i) row.last = row.call();
  return seconds_on(clock) - begin;
}

}  // namespace

/// Commands: `threads N`, `row NUMBERS FOLDER`, and `run CALLS` or `busy CALLS`, which answer with the seconds that
/// they took, or had a processor.
int main() {
  Row row;
  for (std::string command; std::cin >> command;) {
    std::int64_t number = 0;
    if (command == "row") row = read_row();
    else std::cin >> number;
    if (command == "threads") set_thread_count(static_cast<int>(number));
    double seconds = 0;
    if (command == "run") seconds = seconds_of(row, number, CLOCK_MONOTONIC);
    if (command == "busy") seconds = seconds_of(row, number, CLOCK_PROCESS_CPUTIME_ID);
    std::cout << seconds << std::endl;
  }
}
