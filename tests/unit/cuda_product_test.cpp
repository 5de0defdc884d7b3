// Products of matrices on CUDA, without a GPU: which epilogues the library takes, and how an algorithm is chosen and
// remembered.
#include <sinter/backend/cuda/cuda.hpp>
#include <sinter/backend/cuda/product/choice.hpp>
#include <sinter/sinter.hpp>
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/source/library.hpp>
#include <sinter/backend/cuda/source/source.hpp>
#endif

#include "catch.hpp"

#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

using namespace sinter;

#ifdef SINTER_CUDA
using cuda::GemmAlgorithm;
using cuda::ProductCandidate;
using cuda::ProductChoice;
using cuda::ProductChoices;

namespace {
struct TemporaryFolder {
  std::string path =
      (std::filesystem::temp_directory_path() / ("sinter_choice_" + std::to_string(::getpid()))).string();
  TemporaryFolder() { std::filesystem::remove_all(path); }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
};

const std::vector<ProductCandidate> three = {{GemmAlgorithm::library, std::string("a\0\xff", 3), "library 1"},
                                             {GemmAlgorithm::library, "b", "library 2"},
                                             {GemmAlgorithm::fma, "", "fma"}};

cuda::ProductMeasurer times(std::vector<double> microseconds, int* calls = nullptr) {
  return [=](std::span<const ProductCandidate>) {
    if (calls != nullptr) ++*calls;
    return microseconds;
  };
}

/// x * w for rows 64, columns 48, depth 32, and loads that may follow: 3 = a vector along columns, 4 = a matrix of the
/// result's shape, 5 = a vector along rows.
struct ProductCase {
  Kernel kernel;
  BoundGeometry geometry;
  ProductCase() {
    constexpr auto zero = StrideClass::zero, unit = StrideClass::unit, any = StrideClass::any;
    kernel.kind = KernelKind::contraction;
    for (AxisRole role : {AxisRole::parallel, AxisRole::parallel, AxisRole::reduced}) kernel.axes.push_back(role);
    kernel.operands = {{DType::f32, false}, {DType::f32, false}, {DType::f32, true},
                       {DType::f32, false}, {DType::f32, false}, {DType::f32, false}};
    kernel.accesses = {{0, {any, zero, unit}},  {1, {zero, unit, any}}, {2, {any, unit, zero}},
                       {3, {zero, unit, zero}}, {4, {any, unit, zero}}, {5, {unit, zero, zero}}};
    geometry.extent[0] = 64;
    geometry.extent[1] = 48;
    geometry.extent[2] = 32;
    geometry.accesses.resize(6);
    geometry.accesses[0].stride = {32, 0, 1}, geometry.accesses[1].stride = {0, 1, 48},
    geometry.accesses[2].stride = {48, 1, 0};
    geometry.accesses[3].stride = {0, 1, 0}, geometry.accesses[4].stride = {100, 1, 0},
    geometry.accesses[5].stride = {1, 0, 0};
    geometry.accesses[4].offset = 7;
    kernel.body = {{.prim = Prim::load, .dtype = DType::f32, .access = 0},
                   {.prim = Prim::load, .dtype = DType::f32, .access = 1},
                   {.prim = Prim::contract, .dtype = DType::f32, .args = {0, 1, no_inst}}};
    for (std::uint16_t access : {3, 4, 5})
      kernel.body.push_back({.prim = Prim::load, .dtype = DType::f32, .access = access});
  }
  static constexpr InstId product = 2, bias = 3, residual = 4, along_rows = 5;
  InstId add(Prim prim, InstId a, InstId b = no_inst) {
    kernel.body.push_back({.prim = prim, .dtype = DType::f32, .args = {a, b, no_inst}});
    return static_cast<InstId>(kernel.body.size() - 1);
  }
  InstId number(double value) {
    Inst inst{.prim = Prim::immediate, .dtype = DType::f32};
    inst.bits = std::bit_cast<std::uint64_t>(value);
    kernel.body.push_back(inst);
    return static_cast<InstId>(kernel.body.size() - 1);
  }
  std::optional<cuda::LibraryProduct::Epilogue> epilogue_of(InstId stored) {
    kernel.stores = {{2, stored}};
    const auto nest = cuda_source_detail::bind_kernel(kernel, geometry);
    return cuda_source_detail::library_epilogue(nest, {product, 0, 1, -1});
  }
};
}  // namespace

TEST_CASE("products of f16 and bf16 are the library's where both operands lie in memory as such") {
  for (const DType narrow : {DType::f16, DType::bf16}) {
    const auto in_memory = [&](std::initializer_list<std::size_t> operands) {
      ProductCase p;
      for (const std::size_t operand : operands) p.kernel.operands[operand].dtype = narrow;
      return p;
    };
    const auto dtype_of = [](ProductCase& p) {
      p.kernel.stores = {{2, ProductCase::product}};
      return cuda_source_detail::narrow_operands(cuda_source_detail::bind_kernel(p.kernel, p.geometry),
                                                 ProductCase::product);
    };
    ProductCase all = in_memory({0, 1, 2, 3, 4}), right = in_memory({1, 2}), left = in_memory({0, 2}), none;
    CHECK(dtype_of(all) == narrow);
    CHECK(dtype_of(right) == DType::f32);
    CHECK(dtype_of(left) == DType::f32);
    CHECK(dtype_of(none) == DType::f32);
    CHECK(all.epilogue_of(ProductCase::product)->is_empty());
    CHECK(all.epilogue_of(all.add(Prim::add, ProductCase::product, ProductCase::bias))->bias.operand == 3);
    const auto residual = all.epilogue_of(all.add(Prim::add, ProductCase::product, ProductCase::residual));
    CHECK(residual->residual.operand == 4);
    CHECK(residual->residual.byte_offset == 14);
    // The library's result has the dtype of its operands, or f32; what is added has the result's.
    CHECK_FALSE(right.epilogue_of(ProductCase::product));
    ProductCase wide_bias = in_memory({0, 1, 2}), wide = in_memory({0, 1});
    CHECK_FALSE(wide_bias.epilogue_of(wide_bias.add(Prim::add, ProductCase::product, ProductCase::bias)));
    CHECK(wide.epilogue_of(wide.add(Prim::add, ProductCase::product, ProductCase::bias))->bias.operand == 3);
  }
}

TEST_CASE("the library's epilogues are recognised") {
  {
    ProductCase c;
    const auto plain = c.epilogue_of(c.product);
    REQUIRE(plain);
    CHECK(plain->is_empty());
  }
  {
    ProductCase c;
    const auto e = c.epilogue_of(c.add(Prim::add, c.product, c.bias));
    REQUIRE(e);
    CHECK(e->bias.operand == 3);
    CHECK(e->residual.operand == -1);
    CHECK(e->scale == 1);
  }
  {  // either way round, and the residual's own layout
    ProductCase c;
    const auto e = c.epilogue_of(c.add(Prim::add, c.bias, c.add(Prim::add, c.residual, c.product)));
    REQUIRE(e);
    CHECK(e->bias.operand == 3);
    CHECK(e->residual.operand == 4);
    CHECK(e->residual.stride == 100);
    CHECK(e->residual.byte_offset == 28);
    CHECK(e->sign == 1);
  }
  {
    ProductCase c;
    const auto e = c.epilogue_of(c.add(Prim::sub, c.product, c.residual));
    REQUIRE(e);
    CHECK(e->sign == -1);
    CHECK(e->scale == 1);
  }
  {
    ProductCase c;
    const auto e = c.epilogue_of(c.add(Prim::sub, c.residual, c.product));
    REQUIRE(e);
    CHECK(e->sign == 1);
    CHECK(e->scale == -1);
  }
  {
    ProductCase c;
    const auto e = c.epilogue_of(c.add(Prim::mul, c.product, c.number(0.125)));
    REQUIRE(e);
    CHECK(e->scale == 0.125);
  }
}

TEST_CASE("what the library would compute otherwise is left to a kernel") {
  const auto refused = [](const std::function<InstId(ProductCase&)>& stored) {
    ProductCase c;
    return !c.epilogue_of(stored(c)).has_value();
  };
  CHECK(refused([](ProductCase& c) { return c.add(Prim::max, c.product, c.number(0)); }));  // relu: NaN
  CHECK(refused([](ProductCase& c) { return c.add(Prim::tanh, c.product); }));
  CHECK(refused([](ProductCase& c) { return c.add(Prim::add, c.product, c.along_rows); }));  // a bias of the other axis
  CHECK(refused([](ProductCase& c) {
    return c.add(Prim::add, c.add(Prim::add, c.product, c.bias), c.residual);
  }));  // rounds in another order
  CHECK(refused([](ProductCase& c) {
    return c.add(Prim::add, c.add(Prim::mul, c.product, c.number(0.5)), c.bias);
  }));                                                                                      // one rounding or two
  CHECK(refused([](ProductCase& c) { return c.add(Prim::mul, c.product, c.number(0)); }));  // NaN * 0
  CHECK(refused(
      [](ProductCase& c) { return c.add(Prim::mul, c.product, c.number(std::numeric_limits<double>::infinity())); }));
  CHECK(refused([](ProductCase& c) { return c.add(Prim::add, c.product, c.product); }));
  CHECK(refused([](ProductCase& c) { return c.add(Prim::mul, c.product, c.bias); }));
  CHECK(refused([](ProductCase& c) { return c.add(Prim::sub, c.product, c.bias); }));
  CHECK(refused([](ProductCase& c) {
    c.geometry.accesses[4].stride = {40, 1, 0};
    return c.add(Prim::add, c.product, c.residual);
  }));  // rows overlap
  ProductCase two;
  two.kernel.operands.push_back({DType::f32, true});
  two.kernel.accesses.push_back(two.kernel.accesses[2]);
  two.kernel.accesses.back().operand = 6;
  two.geometry.accesses.push_back(two.geometry.accesses[2]);
  two.kernel.stores = {{2, two.product}, {6, two.product}};
  CHECK_FALSE(cuda_source_detail::library_epilogue(cuda_source_detail::bind_kernel(two.kernel, two.geometry),
                                                   {two.product, 0, 1, -1}));
}

TEST_CASE("sizes that differ little are one product to the choice, others are not") {
  ProductCase c;
  c.kernel.stores = {{2, c.product}};
  const auto text = [&](std::int64_t rows) {
    c.geometry.extent[0] = rows;
    return cuda::generate(c.kernel, {}, {})->product(c.geometry, 0).text;
  };
  CHECK(text(1040) == text(1072));
  CHECK(text(1040) != text(1041));  // not a multiple of anything
  CHECK(text(1040) != text(2080));
  c.kernel.precision = MatmulPrecision::tf32;
  const std::string fast = text(1040);
  c.kernel.precision = MatmulPrecision::f32;
  CHECK(fast != text(1040));
}

TEST_CASE("the fastest algorithm is chosen and remembered, in the process and on disk") {
  const TemporaryFolder folder;
  int calls = 0;
  {
    ProductChoices choices{DiskCache(folder.path)};
    CHECK_FALSE(choices.find("key").has_value());
    const ProductChoice choice = choices.choose("key", "a product", three, times({30, 20, 25}, &calls));
    CHECK(choice.algorithm == GemmAlgorithm::library);
    CHECK(choice.library_algorithm == "b");
    CHECK(choice.why == "measured: library 2 (library 1 30.0 us, library 2 20.0 us, fma 25.0 us)");
    CHECK(choices.choose("key", "a product", three, times({1, 2, 3}, &calls)).library_algorithm == "b");
    CHECK(calls == 1);
  }
  ProductChoices later{DiskCache(folder.path)};
  const auto known = later.find("key");
  REQUIRE(known);
  CHECK(known->algorithm == GemmAlgorithm::library);
  CHECK(known->library_algorithm == "b");
  CHECK(known->why == "remembered: library 2 (library 1 30.0 us, library 2 20.0 us, fma 25.0 us)");
  CHECK_FALSE(later.find("another").has_value());
  later.forget(DiskCache(""));
  CHECK_FALSE(later.find("key").has_value());
}

TEST_CASE("bytes of a library's algorithm survive as text") {
  for (const GemmAlgorithm algorithm : {GemmAlgorithm::fma, GemmAlgorithm::wgmma, GemmAlgorithm::library_then_kernel})
    CHECK(ProductChoices::choice_of(ProductChoices::text_of({algorithm, {}, "why"}))->algorithm == algorithm);
  const ProductChoice choice{GemmAlgorithm::tensor_cores, three[0].library_algorithm, "why"};
  const auto read = ProductChoices::choice_of(ProductChoices::text_of(choice));
  REQUIRE(read);
  CHECK(read->algorithm == choice.algorithm);
  CHECK(read->library_algorithm == choice.library_algorithm);
}

TEST_CASE("what fails is not chosen, and measuring that fails leaves the rule") {
  const TemporaryFolder folder;
  ProductChoices choices{DiskCache(folder.path)};
  CHECK(choices.choose("a", "", three, times({-1, 0, 25})).algorithm == GemmAlgorithm::fma);
  CHECK(choices.choose("b", "", three, times({20.1, 20, 25})).library_algorithm ==
        three[0].library_algorithm);  // as good as equal: the preferred one
  CHECK(choices.choose("c", "", three, times({1})).library_algorithm ==
        three[0].library_algorithm);  // the rest was not timed
  const ProductChoice none =
      choices.choose("d", "", three, [](auto) -> std::vector<double> { throw std::runtime_error("no memory"); });
  CHECK(none.algorithm == GemmAlgorithm::library);
  CHECK(none.library_algorithm.empty());
  CHECK(none.why == "by rule, for it could not be measured: no memory");
  CHECK(choices.choose("e", "", three, times({-1, -1, -1})).why.find("by rule") == 0);
  CHECK(choices.find("d")->why == none.why);  // not tried again and again
  ProductChoices later{DiskCache(folder.path)};
  CHECK_FALSE(later.find("d").has_value());  // but by the next process
  CHECK(later.find("a").has_value());
}

TEST_CASE("a damaged entry is measured again") {
  const TemporaryFolder folder;
  const DiskCache disk(folder.path);
  { ProductChoices(disk).choose("key", "", three, times({3, 2, 1})); }
  {
    std::ofstream file(disk.path_of("key"), std::ios::binary | std::ios::trunc);
    file << "garbage";
  }
  CHECK_FALSE(ProductChoices(disk).find("key").has_value());
  CHECK(ProductChoices(disk).choose("key", "", three, times({3, 1, 2})).library_algorithm == "b");
  for (const char* text : {"", "algorithm library\n", "algorithm magic\nlibrary_algorithm \nmeasured x\n",
                           "algorithm library\nlibrary_algorithm 0g\nmeasured x\n",
                           "algorithm library\nlibrary_algorithm 012\nmeasured x\n",
                           "algorithm library\nlibrary_algorithm 01\nmeasured x\nmore\n",
                           "library_algorithm 01\nalgorithm library\nmeasured x\n"}) {
    disk.store("key", text);  // whole, but not ours
    INFO(text);
    CHECK_FALSE(ProductChoices(disk).find("key").has_value());
  }
}

TEST_CASE("what needs no measurement is remembered, what is of another library is dropped, on disk, too") {
  const TemporaryFolder folder;
  const DiskCache disk(folder.path);
  ProductChoices choices(disk);
  choices.remember("key", {GemmAlgorithm::wgmma, {}, "by rule"});
  CHECK(choices.find("key")->algorithm == GemmAlgorithm::wgmma);
  CHECK(ProductChoices(disk).find("key")->algorithm == GemmAlgorithm::wgmma);
  choices.drop("key");
  CHECK_FALSE(choices.find("key").has_value());
  CHECK_FALSE(ProductChoices(disk).find("key").has_value());
  CHECK(choices.choose("key", "", three, times({3, 1, 2})).library_algorithm == "b");
  CHECK(ProductChoices(disk).find("key")->library_algorithm == "b");
}

TEST_CASE("threads that need one product measure it once, and never at the same time") {
  ProductChoices choices{DiskCache("")};
  std::atomic<int> calls{0}, inside{0}, most{0};
  const cuda::ProductMeasurer slow = [&](std::span<const ProductCandidate>) {
    most = std::max(most.load(), ++inside);
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --inside;
    return std::vector<double>{3, 2, 1};
  };
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      right += choices.choose(t % 2 == 0 ? "even" : "odd", "", three, slow).algorithm == GemmAlgorithm::fma;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);
  CHECK(calls == 2);
  CHECK(most == 1);
}

TEST_CASE("what was measured is logged") {
  Context& context = Context::get();
  const auto sink = context.sink;
  const std::string logs = context.logs;
  std::string seen;
  context.logs = "autotune";
  context.sink = [&](std::string_view topic, std::string_view line) {
    seen += std::string(topic) + ": " + std::string(line) + "\n";
  };
  ProductChoices{DiskCache("")}.choose("key", "product of 4x4x4", three, times({3, 2, -1}));
  context.sink = sink;
  context.logs = logs;
  CHECK(seen == "autotune: product of 4x4x4: measured: library 2 (library 1 3.0 us, library 2 2.0 us, fma failed)\n");
}
#endif

TEST_CASE("the environment says how products are chosen, and nonsense is refused") {
  ::setenv("SINTER_CUDA_PRODUCT", "fastest", 1);
  try {
    cuda::product_policy();
    FAIL("taken");
  } catch (const UserError& error) {
    CHECK(std::string(error.what()).find("\"fastest\"") != std::string::npos);
    CHECK(std::string(error.what()).find("library_then_kernel") != std::string::npos);
  }
  ::setenv("SINTER_CUDA_PRODUCT", "library", 1);
  CHECK(cuda::product_policy() == cuda::ProductPolicy::library);
  ::unsetenv("SINTER_CUDA_PRODUCT");
  CHECK(cuda::product_policy() == cuda::ProductPolicy::library);  // read once
  cuda::set_product_policy(cuda::ProductPolicy::measured);
  CHECK(cuda::product_policy() == cuda::ProductPolicy::measured);
}
