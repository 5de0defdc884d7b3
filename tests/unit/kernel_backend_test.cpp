// Kernel back ends that users register: which kernels reach them, what becomes of the others, and what is refused.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/backend/reference/reference.hpp>
#include <sinter/graphs.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

/// Compiles as the reference back end does, and keeps count.
class Counting final : public Backend {
 public:
  Counting(std::string name, Limits limits, int* compiled = nullptr)
      : name_(std::move(name)), limits_(limits), compiled_(compiled) {}
  std::string_view name() const override { return name_; }
  std::string cache_key() const override { return "the same for all"; }
  Limits limits() const override { return limits_; }
  Device device() const override { return where; }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule, std::string*) override {
    if (const std::string lacks = why_not_taken(limits_, kernel); !lacks.empty()) throw InternalError(lacks);
    if (declines && declines(kernel)) return nullptr;
    if (compiled_ != nullptr) ++*compiled_;
    return reference_->compile(kernel, schedule);
  }
  Intrinsic intrinsic(const Graph&, const Node& node, MatmulPrecision precision) const override {
    asked.push_back(precision);
    return node.op->name == "conv2d" ? of_conv2d : nullptr;
  }
  std::function<bool(const Kernel&)> declines;
  Intrinsic of_conv2d = nullptr;
  mutable std::vector<MatmulPrecision> asked;  // by intrinsic()
  Device where = Device::cpu();

 private:
  std::string name_;
  Limits limits_;
  int* compiled_;
  std::unique_ptr<Backend> reference_ = make_reference_backend();
};

/// Log lines of the topic while it lives.
class Log {
 public:
  explicit Log(std::string topic) {
    Context::get().logs = std::move(topic);
    Context::get().sink = [this](std::string_view, std::string_view line) { lines.emplace_back(line); };
  }
  ~Log() {
    Context::get().logs = logs_;
    Context::get().sink = sink_;
  }
  std::vector<std::string> lines;

 private:
  std::string logs_ = Context::get().logs;
  std::function<void(std::string_view, std::string_view)> sink_ = Context::get().sink;
};

auto softmax_of_layer() {
  return [](Tensor x, Tensor w) { return softmax(tanh(matmul(x, w) * 2 + 1), 1); };
}

std::string refusal(std::unique_ptr<Backend> backend) {
  return message_of<UserError>([&] { jit::register_kernel_backend(std::move(backend)); });
}
std::string refusal(std::string name, Limits limits) { return refusal(std::make_unique<Counting>(name, limits)); }

}  // namespace

TEST_CASE("kernel back ends: the kernels within its limits, and the reference back end for the rest") {
  int compiled = 0;
  jit::register_kernel_backend(
      std::make_unique<Counting>("pointwise only", Limits{.kinds = {KernelKind::pointwise}}, &compiled));
  const auto names = jit::list_backends();
  CHECK(std::find(names.begin(), names.end(), "pointwise only") != names.end());

  const Tensor x = reshape(arange(12), {3, 4}).to(DType::f32) / 12, w = ones({4, 5}) / 4;
  auto f = jit::compile(softmax_of_layer(), {.backend = "pointwise only"});
  const Log log("kernels");
  CHECK(floats(f(x, w)) == floats(jit::compile(softmax_of_layer(), {.backend = "reference"})(x, w)));
  CHECK(compiled == 3);  // the tanh, the exponentials and the division
  CHECK(std::any_of(log.lines.begin(), log.lines.end(), [](const std::string& line) {
    return line == "matmul runs on reference (pointwise only: it takes no kernels of kind contraction)";
  }));
  const std::string text = f.explain(x, w).text();
  CHECK(has(text, "matmul [reference] (pointwise only: it takes no kernels of kind contraction)"));
  CHECK(has(text, "fused_mul_add_tanh [pointwise only]"));
  CHECK(has(text, "[reference] (pointwise only: it takes no kernels of kind row)"));
}

TEST_CASE("kernel back ends: code is its own, whatever its cache_key says") {
  int first = 0, second = 0;
  jit::register_kernel_backend(std::make_unique<Counting>("first of two", Limits{}, &first));
  jit::register_kernel_backend(std::make_unique<Counting>("second of two", Limits{}, &second));
  auto body = [](Tensor x) { return tanh(tanh(x) * 3); };
  for (const char* name : {"first of two", "second of two"}) {
    auto f = jit::compile(body, {.backend = name}), again = jit::compile(body, {.backend = name});
    CHECK(floats(f(ones({3}))) == floats(again(ones({3}))));
    CHECK(f.stats().kernels == 1);
  }
  CHECK(first == 1);  // known the second time
  CHECK(second == 1);
}

TEST_CASE("kernel back ends: compile may decline what the limits allow") {
  auto picky = std::make_unique<Counting>("picky", Limits{});
  picky->declines = [](const Kernel& kernel) { return kernel.kind != KernelKind::pointwise; };
  jit::register_kernel_backend(std::move(picky));
  auto f = jit::compile([](Tensor x) { return std::pair{exp(x), sum(x * x)}; }, {.backend = "picky"});
  CHECK(item<float>(f(ones({4})).second) == 4);
  CHECK(has(f.explain(ones({4})).text(), "[reference] (picky: declined)"));
}

TEST_CASE("kernel back ends: an intrinsic gives a launch") {
  auto absent = std::make_unique<Counting>("absent", Limits{});
  absent->of_conv2d = [](const Attrs&, std::span<const Type>) { return std::unique_ptr<Launch>(); };
  jit::register_kernel_backend(std::move(absent));
  auto f = jit::compile([](Tensor x, Tensor w) { return conv2d(x, w); }, {.backend = "absent"});
  CHECK(has(message_of<InternalError>([&] { eval(f(ones({1, 1, 4, 4}), ones({1, 1, 2, 2}))); }),
            "an intrinsic of a back end gave no launch"));
}

TEST_CASE("kernel back ends: what is computed whole is asked with the precision of the function") {
  auto own = std::make_unique<Counting>("asked", Limits{});
  const Counting& backend = *own;
  jit::register_kernel_backend(std::move(own));
  const auto convolve = [](Tensor x, Tensor w) { return conv2d(x, w); };
  auto f = jit::compile(convolve, {.backend = "asked", .matmul_precision = MatmulPrecision::tf32});
  eval(f(ones({1, 1, 4, 4}), ones({1, 1, 2, 2})));
  CHECK(!backend.asked.empty());
  for (const MatmulPrecision precision : backend.asked) CHECK(precision == MatmulPrecision::tf32);
}

TEST_CASE("kernel back ends: in gradients, loops and compile_graph, too") {
  int compiled = 0;
  jit::register_kernel_backend(
      std::make_unique<Counting>("everywhere", Limits{.kinds = {KernelKind::pointwise}}, &compiled));
  auto descend = [](Tensor x) {
    auto loss = [](Tensor y) { return sum(tanh(y) * tanh(y)); };
    return jit::fori_loop(0, 3, [loss](Scalar, Tensor y) -> Tensor { return y - jit::grad(loss)(y) * 0.5f; }, x);
  };
  auto f = jit::compile(descend, {.backend = "everywhere"}), same = jit::compile(descend, {.backend = "reference"});
  CHECK(floats(f(ones({5}))) == floats(same(ones({5}))));
  CHECK(compiled > 0);
  const Graph graph = parse_graph("graph(%0: f32[4]) {\n  %1: f32[4] = tanh(%0)\n  return %1\n}");
  compiled = 0;
  jit::compile_graph(graph, "everywhere");
  CHECK(compiled == 1);
}

TEST_CASE("kernel back ends: what is refused") {
  jit::register_kernel_backend(std::make_unique<Counting>("taken", Limits{}));
  CHECK(has(refusal("taken", {}), "register_kernel_backend: there is a back end 'taken' already [kernel_backend_test"));
  for (const char* name : {"reference", "eager", "noop"}) CHECK(has(refusal(name, {}), "already"));
  CHECK(has(message_of<UserError>([] {
              jit::register_backend(
                  "taken", [](const Graph& graph, std::span<const Tensor>) { return jit::compile_graph(graph); });
            }),
            "register_backend: there is a back end 'taken' already"));
  CHECK(has(refusal(nullptr), "there is no back end: the pointer is null"));
  CHECK(has(refusal("", {}), "the name is empty"));
  CHECK(has(refusal("nothing", {.kinds = {}}), "back end 'nothing' has no kind of kernel in its limits"));
  CHECK(has(refusal("nothing", {.dtypes = {}}), "back end 'nothing' has no dtype in its limits"));
  CHECK(has(refusal("nothing", {.max_operands = 1}), "limits of 1 operands, 48 accesses and 256 instructions"));
  CHECK(has(refusal("nothing", {.narrow_products = {DType::bf16, DType::i8}}),
            "has a dtype besides f16 and bf16 among the narrow_products of its limits"));
  CHECK(has(refusal("nothing", {.primitives = {Prim::mul, Prim::add}}), "has mul and add in its limits, and no fma"));
  auto elsewhere = std::make_unique<Counting>("elsewhere", Limits{});
  elsewhere->where = Device::cuda(0);
  CHECK(has(refusal(std::move(elsewhere)), "back end 'elsewhere' is for cuda:0"));
  const auto names = jit::list_backends();
  CHECK(std::find(names.begin(), names.end(), "nothing") == names.end());
}
