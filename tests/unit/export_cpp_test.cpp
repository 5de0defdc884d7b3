// jit::export_cpp: headers are compiled by the system's compiler, without Sinter, and their functions give the bits of
// the compiled ones; what no header can hold is an error that names the line.
#include "../files_and_errors.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <sinter/export_cpp.hpp>
#include <sinter/export_function.hpp>
#include <sinter/graphs.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

/// Whether headers can be made, compiled and run here.
bool can_run() {
#ifdef __x86_64__
  return has_code && __builtin_cpu_supports("avx2") && std::system("g++ --version > /dev/null 2>&1") == 0;
#else
  return false;
#endif
}
bool has_compiler(const std::string& name) { return std::system((name + " --version > /dev/null 2>&1").c_str()) == 0; }

/// What a program prints; first what the compiler says.
std::string output_of(const Folder& folder, const std::string& compiler, const std::string& source) {
  std::ofstream(folder / "main.cpp") << source;
  const std::string at = "cd " + folder.path + " && ";
  const std::string compile = at + compiler + " -Wall -Wextra -Werror main.cpp -o main > said 2>&1";
  if (std::system(compile.c_str()) != 0) return "not compiled: " + read_file(folder / "said");
  const int status = std::system((at + "./main > said 2>&1").c_str());
  return read_file(folder / "said") + (status == 0 ? "" : "failed");
}

/// A program that calls exported functions and compares what they give, all bits of it, with files.
class Comparison {
 public:
  explicit Comparison(const Folder& folder) : folder_(folder) {}

  template <class F, class... A>
  void add(const std::string& name, const F& f, const A&... args) {
    add_as(jit::CppFile{.path = folder_ / (name + ".hpp"), .name = name}, f, args...);
  }
  template <class F, class... A>
  void add_as(const jit::CppFile& file, const F& f, const A&... args) {
    jit::export_cpp(f, file, args...);
    const Tensor expected = jit::compile(f, {.dynamic = jit::Dynamic::never})(args...);
    std::string call;
    int number = 0;
    const auto put = [&](const Tensor& value) {
      const std::string path = file.name + std::to_string(number++) + ".bin";
      const Ref<TensorImpl> dense = dense_value(In(value), "test");
      std::ofstream(folder_ / path, std::ios::binary)
          .write(static_cast<const char*>(dense->data()),
                 dense->type.shape.numel().value() * size_of(dense->type.dtype));
      return path;
    };
    ((call += "Data(\"" + put(args) + "\"), "), ...);
    const std::string wanted = put(expected);
    headers_ += "#include \"" + file.name + ".hpp\"\n";
    calls_ += "  {\n    Data wanted(\"" + wanted + "\"), given(\"" + wanted +
              "\");\n    given.fill();\n    const int status = " + file.name + "(" + call +
              "given);\n    std::printf(\"" + file.name + " %s\\n\", status != 0 ? " + file.name +
              "_status_text(status) : given.bytes == wanted.bytes ? \"same\" : \"DIFFERS\");\n  }\n";
    expected_ += file.name + " same\n";
  }
  std::string source(const std::string& more = {}) const {
    return headers_ + R"cpp(
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
             struct Data {
               std::string bytes;
               explicit Data(const char* path) {
                 std::ifstream in(path, std::ios::binary);
                 bytes.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
                 bytes.reserve(bytes.size() + 64);
               }
               void fill() { bytes.assign(bytes.size(), '\x55'); }
               template <class T>
               operator T*() {
                 return reinterpret_cast<T*>(&bytes[0]);
               }
             };
             int main() {
           )cpp" +
           calls_ + more + "}\n";
  }
  const std::string& expected() const { return expected_; }

 private:
  const Folder& folder_;
  std::string headers_, calls_, expected_;
};

void add_functions(Comparison& all, const std::string& isa, const Folder& folder) {
  manual_seed(7);
  Variable w1(randn({37, 50}), "w1");
  w1.requires_grad(true);
  const Variable b1(randn({50})), w2(randn({50, 10}));
  const Tensor kernel = randn({8, 3, 3, 3}), table = transpose(randn({30, 4}), 0, 1);
  const auto mlp = [&](const Tensor& x) { return softmax(matmul(tanh(matmul(x, w1) + b1), w2), -1); };
  all.add_as({.path = folder / "mlp.hpp", .name = "mlp", .inputs = {"x"}, .outputs = {"y"}, .isa = isa}, mlp,
             randn({5, 37}));
  const auto add = [&](const std::string& name, const auto& f, const auto&... args) {
    all.add_as({.path = folder / (name + ".hpp"), .name = name, .isa = isa}, f, args...);
  };
  add("soft", [](const Tensor& x) { return softmax(x, -1); }, randn({40, 1000}));
  add("rows", [](const Tensor& x) { return layer_norm(x, {5}); }, randn({64, 5}));
  add("sums", [](const Tensor& x) { return sum(square(x), 0); }, randn({300, 70}));
  add("total", [](const Tensor& x) { return sum(x); }, randn({1000, 100}));
  add("conv", [&](const Tensor& x) { return relu(conv2d(x, kernel)); }, randn({2, 3, 17, 19}));
  add("groups", [](const Tensor& x, const Tensor& y) { return matmul(x, y); }, randn({7, 17000}), randn({17000, 5}));
  add(
      "epilogue", [](const Tensor& x, const Tensor& y) { return exp(matmul(x, y) * 0.001f); }, randn({7, 9000}),
      randn({9000, 45}));
  add("matvec", [](const Tensor& x, const Tensor& y) { return matmul(x, y); }, randn({300, 500}), randn({500}));
  add(
      "batched", [](const Tensor& x, const Tensor& y) { return matmul(x, transpose(y, 1, 2)) + 1.f; },
      randn({3, 33, 65}), randn({3, 47, 65}));
  add(
      "doubles", [](const Tensor& x) { return matmul(x, transpose(x, 0, 1)); },
      randn({70, 300}, {.dtype = DType::f64}));
  add("table", [&](const Tensor& i) { return take(table, i, 0) * 2; }, tensor({2, 0, 1, 3}));
  add("turned", [](const Tensor& x) { return transpose(x, 0, 1) + 1; }, randn({200, 300}));
  add("running", [](const Tensor& x) { return cumsum(x, 1); }, randn({20, 3000}));
  add("halves", [](const Tensor& x) { return x * 3 + 1; }, randn({33}).to(DType::f16));
  add("bools", [](const Tensor& x) { return x > 0; }, randn({33}));
  add("empty", [](const Tensor& x) { return x * 2; }, randn({0, 8}));
  add("same", [](const Tensor& x) { return x; }, randn({3, 8}));
  add("fixed", [&](const Tensor&) { return table + 0; }, randn({2}));
  add(
      "blocks",
      [&](Tensor x) {
        for (int i = 0; i < 4; ++i) x = relu(matmul(x, transpose(x, 0, 1)) * 0.01f);  // calls of a region
        return x;
      },
      randn({24, 24}));
}

}  // namespace

TEST_CASE("export_cpp: headers give the bits of the compiled function") {
  if (!can_run()) SINTER_SKIP("no x86 back end, no g++, or no AVX2");
  std::vector<std::string> isas{"avx2"};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    isas.emplace_back("avx512");
#endif
  for (const std::string& isa : isas) {
    const Folder folder;
    Comparison all(folder);
    add_functions(all, isa, folder);
    CHECK(output_of(folder, "g++ -std=c++11 -O1", all.source()) == all.expected());
    if (isa == "avx2" && has_compiler("clang++"))
      CHECK(output_of(folder, "clang++ -std=c++17 -O0 -Wshadow -Wconversion", all.source()) == all.expected());
    CHECK_THAT(read_file(folder / "mlp.hpp"), !Catch::Contains("sinter/"));
  }
}

namespace {
/// Numbers with ties, both zeros, infinities and NaN.
Tensor with_ties(const Shape& shape, DType dtype) {
  Tensor x = floor(randn(shape) * 3);
  x = where(x == -2, -0.f, where(x == 3, std::numeric_limits<float>::quiet_NaN(), x));
  return where(x == 4, -std::numeric_limits<float>::infinity(), x).to(dtype);
}

bool is_every_sign_set(const Tensor& x) {
  for (const float value : to_vector<float>(x.to(DType::f32)))
    if (!std::signbit(value)) return false;
  return true;
}

void add_orders(Comparison& all, const std::string& isa, const Folder& folder) {
  const auto add = [&](const std::string& name, const auto& f, const auto&... args) {
    all.add_as({.path = folder / (name + ".hpp"), .name = name, .isa = isa}, f, args...);
  };
  const Tensor x = with_ties({5, 200}, DType::f32), whole = floor(randn({7, 33, 3}) * 4).to(DType::i64);
  add("sorted", [](const Tensor& a) { return sort(a * 2, -1).values; }, x);
  add("places", [](const Tensor& a) { return argsort(a, 0, {.descending = true}); }, x);
  add("places_f16", [](const Tensor& a) { return argsort(a, 1); }, with_ties({4, 90}, DType::f16));
  add("places_i64", [](const Tensor& a) { return argsort(a, 1); }, whole);
  add(
      "sorted_f64", [](const Tensor& a) { return sort(a, 0, {.descending = true}).values; },
      with_ties({90}, DType::f64));
  add("sorted_u8", [](const Tensor& a) { return sort(a, -1).values; }, (whole + 100).to(DType::u8));
  add("sorted_bool", [](const Tensor& a) { return sort(a > 0, 1).values; }, whole);
  add("largest", [](const Tensor& a) { return topk(a, 7, -1).values + 1; }, x);
  add("least", [](const Tensor& a) { return topk(a, 3, 1, {.largest = false, .sorted = false}).indices; }, whole);
  add("none", [](const Tensor& a) { return sort(a, 1).values; }, zeros({3, 0}));
  add("middle", [](const Tensor& a) { return median(a, 1).values; }, x);
  add("middle_of_numbers", [](const Tensor& a) { return nanmedian(a, 1).indices; }, x);
  add("most", [](const Tensor& a) { return mode(a, 1).indices; }, whole);
  add("fifth", [](const Tensor& a) { return kthvalue(a, 5, 0).values; }, with_ties({9, 20}, DType::f32));
  add(
      "found", [](const Tensor& s, const Tensor& a) { return searchsorted(s, a, {.right = true}); },
      sort(with_ties({4, 30}, DType::f32), 1).values + 0, with_ties({4, 50}, DType::f32));
  add(
      "found_in_row", [](const Tensor& s, const Tensor& a) { return searchsorted(s, a); },
      sort(with_ties({30}, DType::f32)).values + 0, with_ties({4, 5}, DType::f32));
  add("first_places", [](const Tensor& a) { return argsort(a(slice(1, 4)), 1); }, x);
}

void add_scatters(Comparison& all, const std::string& isa, const Folder& folder) {
  const auto add = [&](const std::string& name, const auto& f, const auto&... args) {
    all.add_as({.path = folder / (name + ".hpp"), .name = name, .isa = isa}, f, args...);
  };
  const Tensor rows = tensor({3, 1, 3, 0, -1}), x = randn({6, 40}), part = randn({5, 40});
  const Tensor places = cast(floor(rand({5, 40}) * 6), DType::i64);
  add(
      "rows_added", [](const Tensor& a, const Tensor& i, const Tensor& b) { return index_add(a, 0, i, b * 0.1f); }, x,
      rows, part);
  add(
      "added", [](const Tensor& a, const Tensor& i, const Tensor& b) { return tanh(scatter_add(a, 0, i, exp(b))); }, x,
      places, part);
  add("set", [](const Tensor& a, const Tensor& i, const Tensor& b) { return index_copy(a, 0, i, b); }, x, rows, part);
  add(
      "set_f16", [](const Tensor& a, const Tensor& i, const Tensor& b) { return index_copy(a, 0, i, b * 2); },
      x.to(DType::f16), rows, part.to(DType::f16));
  add(
      "cache", [](const Tensor& a, const Tensor& at, const Tensor& b) { return dynamic_update_slice(a, b, {at, 0}); },
      x, cast(tensor({4}), DType::i64).reshape({}), randn({1, 40}));
  for (const auto& [name, reduction] :
       {std::pair("least_at", ScatterReduction::amin), std::pair("largest_at", ScatterReduction::amax),
        std::pair("product_at", ScatterReduction::prod)})
    add(
        name,
        [r = reduction](const Tensor& a, const Tensor& i, const Tensor& b) { return scatter_reduce(a, 0, i, b, r); },
        with_ties({6, 40}, DType::f64), places, with_ties({5, 40}, DType::f64));
  const Tensor small = cast(floor(randn({5, 40}) * 90), DType::i8);
  add(
      "added_i8",
      [](const Tensor& i, const Tensor& b) { return scatter_add(zeros({6, 40}, {.dtype = DType::i8}), 0, i, b); },
      places, small);
  add(
      "added_bool",
      [](const Tensor& i, const Tensor& b) {
        return scatter_add(zeros({6, 40}, {.dtype = DType::bool_}), 0, i, b > 50);
      },
      places, small);
  for (const auto& [name, dtype] : {std::pair("added_f16", DType::f16), std::pair("added_bf16", DType::bf16)})
    add(
        name, [](const Tensor& a, const Tensor& i, const Tensor& b) { return scatter_add(a, 0, i, b * 0.3f); },
        with_ties({6, 40}, dtype), places, (part * randn({5, 40})).to(dtype));
  add(
      "tiny_f16", [](const Tensor& a, const Tensor& i) { return scatter_add(a, 0, i, a(slice(0, 5))); },
      (x * 1e-6f).to(DType::f16), places);
  // Of two NaN the one that was there stays, whatever the order in which a compiler adds or multiplies.
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor negative = full({6, 40}, -nan).to(dtype), positive = full({5, 40}, nan).to(dtype);
    const std::string type{sinter::name(dtype)};
    const auto sum = [](const Tensor& a, const Tensor& i, const Tensor& b) { return scatter_add(a, 0, i, b); };
    const auto product = [](const Tensor& a, const Tensor& i, const Tensor& b) {
      return scatter_reduce(a, 0, i, b, ScatterReduction::prod);
    };
    add("nan_sum_" + type, sum, negative, places, positive);
    add("nan_product_" + type, product, negative, places, positive);
    CHECK(is_every_sign_set(jit::compile(sum)(negative, places, positive)));
    CHECK(is_every_sign_set(jit::compile(product)(negative, places, positive)));
  }
  add("counted", [](const Tensor& i) { return bincount(i.reshape({-1}), 6); }, places);
  add(
      "twice",
      [](const Tensor& a, const Tensor& i) {
        return index_add(index_add(a, 0, i, a(slice(0, 5))), 1, tensor({39, 0}), a(sinter::all, slice(0, 2)));
      },
      x, rows);
}
}  // namespace

TEST_CASE("export_cpp: sorts, selections, searches and scatters") {
  if (!can_run()) SINTER_SKIP("no x86 back end, no g++, or no AVX2");
  manual_seed(3);
  const Folder folder;
  Comparison all(folder);
  add_orders(all, "avx2", folder);
  add_scatters(all, "avx2", folder);
  CHECK(output_of(folder, "g++ -std=c++11 -O0 -Wshadow", all.source()) == all.expected());
  if (has_compiler("clang++"))
    CHECK(output_of(folder, "clang++ -std=c++11 -O0 -Wshadow -Wconversion", all.source()) == all.expected());
}

TEST_CASE("export_cpp: branches and loops") {
  if (!can_run()) SINTER_SKIP("no x86 back end, no g++, or no AVX2");
  manual_seed(4);
  const Folder folder;
  Comparison all(folder);
  const auto add = [&](const std::string& name, const auto& f, const auto&... args) {
    all.add_as({.path = folder / (name + ".hpp"), .name = name, .isa = "avx2"}, f, args...);
  };
  const Tensor w = randn({6, 6}), x = randn({4, 6});
  const auto branch = [&](const Tensor& a) {
    return jit::cond(sum(a) > 0.f, [&] { return matmul(a, w); }, [&] { return sort(a, 1).values * 2.f; });
  };
  add("branch_yes", branch, abs(x));
  add("branch_no", branch, -abs(x));
  add(
      "counted_loop",
      [&](const Tensor& a) {
        return jit::fori_loop(0, 5, [&](const Scalar& i, const Tensor& c) { return tanh(matmul(c, w)) + i; }, a);
      },
      x);
  const auto until = [&](const Tensor& a) {
    return jit::while_loop([](const Tensor& c) { return sum(abs(c)) > 1.f; }, [](const Tensor& c) { return c * 0.5f; },
                           a);
  };
  add("until", until, x);
  add("not_once", until, x * 0.001f);
  const auto recurrent = [&](const Tensor& h0, const Tensor& xs) {
    const auto [h, ys] = jit::scan(
        [&](const Tensor& state, const Tensor& a) {
          const Tensor next = tanh(matmul(state, w) + a);
          return std::pair(next, next * 2.f);
        },
        h0, xs);
    return concat({h.reshape({1, 4, 6}), ys}, 0);
  };
  add("recurrent", recurrent, x, randn({7, 4, 6}));
  add("recurrent_even", recurrent, x, randn({2, 4, 6}));
  CHECK(output_of(folder, "g++ -std=c++11 -O0 -Wshadow", all.source()) == all.expected());
  if (has_compiler("clang++"))
    CHECK(output_of(folder, "clang++ -std=c++11 -O0 -Wshadow -Wconversion", all.source()) == all.expected());
}

TEST_CASE("export_cpp: a scatter's index out of range is a status") {
  if (!can_run()) SINTER_SKIP("no x86 back end, no g++, or no AVX2");
  const Folder folder;
  jit::export_cpp([](const Tensor& i, const Tensor& b) { return index_add(zeros({4, 2}), 0, i, b); },
                  {.path = folder / "rows.hpp", .name = "rows", .isa = "avx2"}, tensor({0, 1}), ones({2, 2}));
  const std::string out = output_of(folder, "g++ -std=c++11", R"cpp(
#include "rows.hpp"
#include <cstdio>
    int main() {
      const std::int32_t good[] = {3, -4}, above[] = {0, 4}, below[] = {-5, 0};
      const float b[] = {1, 2, 3, 4};
      float y[8];
      std::printf("%d %d ", rows(above, b, y), rows(below, b, y));
      std::printf("%d", rows(good, b, y));
      std::printf(" %g %g %g\n", static_cast<double>(y[0]), static_cast<double>(y[6]), static_cast<double>(y[2]));
    }
  )cpp");
  CHECK(out == "4 4 0 3 1 0\n");
}

TEST_CASE("export_cpp: two files may include a header, calls take a caller's arena, and errors are codes") {
  if (!can_run()) SINTER_SKIP("no x86 back end, no g++, or no AVX2");
  const Folder folder;
  const Tensor table = arange(12).to(DType::f32).reshape({4, 3});
  jit::export_cpp([&](const Tensor& i) { return softmax(matmul(take(table, i, 0), transpose(table, 0, 1)), 1); },
                  {.path = folder / "look.hpp", .name = "look", .isa = "avx2"}, tensor({0, 1}));
  std::ofstream(folder / "other.cpp") << "#include \"look.hpp\"\nint other(const std::int32_t* i, float* y, void* a) "
                                         "{ return look(i, y, a); }\n";
  const std::string out = output_of(folder, "g++ -std=c++11 other.cpp", R"cpp(
#include "look.hpp"
#include <cstdio>
    int other(const std::int32_t* i, float* y, void* a);
    int main() {
      std::int32_t good[] = {3, 1}, bad[] = {3, 4};
      float y[8];
      void* const memory = std::malloc(look_arena_bytes() + 64);
      char* const arena = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(memory) + 63) / 64 * 64);
      std::printf("%d %d %d %d %d %d\n", look(good, y), look(good, y, arena) != look_ok, other(good, y, arena),
                  look(bad, y), look(nullptr, y) != look_bad_argument, look(good, y, arena + 4));
      std::printf("%s, %g\n", look_status_text(look(bad, y)), static_cast<double>(y[0] * 0));
      std::free(memory);
    }
  )cpp");
  CHECK(out == "0 0 0 4 0 3\nan index is out of range; results are unspecified, 0\n");
}

TEST_CASE("export_cpp: results in a container are parameters one after the other") {
  if (!has_code) SINTER_SKIP("no x86 back end");
  const Folder folder;
  const std::string path = folder / "f.hpp";
  jit::export_cpp([](const Tensor& a) { return std::vector<Tensor>{a + 1, a * 2}; },
                  {.path = path, .outputs = {"up", "twice"}, .isa = "avx2"}, ones({3}));
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK_CONTAINS(text, "float* up /* f32[3] */");
  CHECK_CONTAINS(text, "float* twice /* f32[3] */");
}

TEST_CASE("export_cpp: what no header can hold is an error with its line") {
  if (!has_code) SINTER_SKIP("no x86 back end");
  const Folder folder;
  const std::string path = folder / "f.hpp";
  const auto refused = [&](const auto& f, const auto&... args) {
    return error_of<UserError>([&] { jit::export_cpp(f, {.path = path, .isa = "avx2"}, args...); });
  };
  const Tensor x = randn({4, 4});
  std::string said = refused([](const Tensor& a) { return linalg::inv(a); }, x);
  CHECK_CONTAINS(said, "cannot be exported: it is done by a function of the library");
  CHECK_CONTAINS(said, "export_cpp_test.cpp:");
  CHECK_CONTAINS(refused([](const Tensor& a) { return a + rand({4, 4}); }, x), "draws random numbers");
  Variable count(zeros({}));
  CHECK_CONTAINS(refused(
                     [&](const Tensor& a) {
                       count = count + 1;
                       return a + count;
                     },
                     x),
                 "assigns to a Variable");
  CHECK_CONTAINS(refused([](const Tensor& a) { return std::pair(a, a.size(0)); }, x), "or an extent");
  CHECK_CONTAINS(refused([](const Tensor& a) { return std::pair(a, std::string("x")); }, x), "a number, text");
  CHECK_THROWS_AS(jit::export_cpp([](const Tensor& a) { return item(sum(a)) > 0 ? a : -a; }, path, x), Error);
  const auto look = jit::compile([](const Tensor& table, const Tensor& i) { return take(table, i, 0); });
  said = error_of<UserError>([&] { jit::export_cpp(look.lower(zeros({0, 4}), tensor({0, 1})).graph(), path); });
  CHECK_CONTAINS(said, "an index into an axis of extent 0");
  CHECK_CONTAINS(said, "export_cpp_test.cpp:");
  const std::string of_rows = "graph(%0: f32[s0, 4]) {\n  %1: f32[s0, 4] = exp(%0)\n  return %1\n}\n";
  CHECK_CONTAINS(error_of<UserError>([&] { jit::export_cpp(parse_graph(of_rows), path); }), "symbol s0 has no hint");
  CHECK_FALSE(std::ifstream(path).good());  // nothing was written

  const auto twice = [](const Tensor& a) { return a * 2; };
  const auto fails = [&](const jit::CppFile& file) {
    return error_of<UserError>([&] { jit::export_cpp(twice, file, x); });
  };
  CHECK_CONTAINS(fails({.path = path, .name = "2x"}), "'2x' is no name that a function can have");
  CHECK_CONTAINS(fails({.path = path, .name = "class"}), "'class' is no name");
  CHECK_CONTAINS(fails({.path = path, .inputs = {"a", "b"}}), "there are names for 2 inputs, of 1");
  CHECK_CONTAINS(fails({.path = path, .inputs = {"v"}, .outputs = {"v"}}), "two values are called 'v'");
  CHECK_CONTAINS(fails({.path = path, .inputs = {"model"}}), "two values are called 'model'");
  CHECK_CONTAINS(fails({.path = path, .name = "main"}), "'main' is no name");
  CHECK_CONTAINS(fails({.path = path, .inputs = {"requires"}}), "'requires' is no name that a parameter can have");
  CHECK_CONTAINS(fails({.path = path, .inputs = {"sinter_in"}}), "'sinter_in' is no name");
  CHECK_CONTAINS(fails({.path = path, .outputs = {"model_ok"}}), "'model_ok' is a name of the header's own");
  CHECK_CONTAINS(fails({.path = path, .isa = "sse"}), "unknown instruction set \"sse\"");
  CHECK_THROWS_AS(jit::export_cpp(twice, folder / "no/such/f.hpp", x), IoError);
}

TEST_CASE("export_cpp: extents are those of the arguments, and graphs are exported as they are") {
  if (!can_run()) SINTER_SKIP("no x86 back end, no g++, or no AVX2");
  const Folder folder;
  Comparison all(folder);
  Tensor x = randn({6, 5});
  jit::mark_dynamic(x, 0);
  const auto f = [](const Tensor& a) { return sum(a * static_cast<float>(2), 0) / a.size(0); };
  all.add("marked", f, x);
  const auto g = jit::compile([](const Tensor& a) { return tanh(a) - 1; });
  jit::export_cpp(g.lower(x).graph(), {.path = folder / "graph.hpp", .name = "graph"});
  jit::export_cpp([](const Tensor& a) { return std::tuple(a, a + 1); }, folder / "pair.hpp", x);
  all.add("compiled", [](const Tensor& a) { return tanh(a) - 1; }, x);
  const std::string more =
      "  Data a(\"compiled0.bin\"), wanted(\"compiled1.bin\"), y(\"compiled1.bin\");\n  y.fill();\n"
      "  const int status = graph(a, y);\n"
      "  std::printf(\"%d %d\\n\", status, y.bytes == wanted.bytes);\n";
  CHECK(output_of(folder, "g++ -std=c++14 -O0", "#include \"graph.hpp\"\n" + all.source(more)) ==
        all.expected() + "0 1\n");
}

TEST_CASE("export_cpp: parameters may have the names of what is computed with") {
  if (!can_run()) SINTER_SKIP("no x86 back end, no g++, or no AVX2");
  const Folder folder;
  Comparison all(folder);
  const Tensor scale = full({4}, 3.f);
  all.add_as(
      {.path = folder / "named.hpp", .name = "named", .inputs = {"in", "weight"}, .outputs = {"out"}},
      [&](const Tensor& x, const Tensor& y) { return matmul(x, y) * scale; }, randn({2, 3}), randn({3, 4}));
  all.add_as(
      {.path = folder / "other.hpp", .name = "other", .inputs = {"own", "is_done"}, .outputs = {"standard"}},
      [&](const Tensor& x, const Tensor& y) { return x + y * scale; }, randn({2, 4}), randn({2, 4}));
  CHECK(output_of(folder, "g++ -std=c++11 -O0 -Wshadow", all.source()) == all.expected());
}

TEST_CASE("export_cpp: headers with one name have different symbols") {
  if (!can_run()) SINTER_SKIP("no x86 back end, no g++, or no AVX2");
  const Folder folder;
  jit::export_cpp([](const Tensor& x) { return x * 2.f; }, folder / "twice.hpp", ones({4}));
  jit::export_cpp([](const Tensor& x) { return x * 3.f; }, folder / "thrice.hpp", ones({4}));
  std::ofstream(folder / "other.cpp") << "#include \"thrice.hpp\"\nint other(const float* x, float* y) "
                                         "{ return model(x, y); }\n";
  const std::string source = R"cpp(
#include "twice.hpp"
#include <cstdio>
    int other(const float* x, float* y);
    int main() {
      const float x[4] = {1, 1, 1, 1};
      float y[4], z[4];
      const int failed = model(x, y) + other(x, z);
      std::printf("%d %g %g\n", failed, static_cast<double>(y[0]), static_cast<double>(z[3]));
    }
  )cpp";
  CHECK(output_of(folder, "g++ -std=c++11 other.cpp", source) == "0 2 3\n");
  CHECK_CONTAINS(output_of(folder, "g++ -std=c++11 other.cpp", "#include \"thrice.hpp\"\n" + source), "ambiguous");
  CHECK(output_of(folder, "g++ -std=c++11 other.cpp", "#include \"twice.hpp\"\n" + source) == "0 2 3\n");
  CHECK_CONTAINS(output_of(folder, "g++ -std=c++11 -ffinite-math-only other.cpp", source), "-ffast-math");
}

TEST_CASE("export_function: the ending of the file's name says what is written") {
  const Folder folder;
  const auto f = jit::compile([](const Tensor& x) { return tanh(x) * 2; });
  const Tensor x = randn({2, 3});
  jit::export_function(f, folder / "f.graph", x);
  const Graph graph = parse_graph(read_file(folder / "f.graph"));
  CHECK(allclose(jit::compile_graph(graph)(std::vector<Tensor>{x})[0], f(x)));
  jit::export_function(f, folder / "f.onnx", x);
  jit::export_onnx(f, folder / "g.onnx", x);
  CHECK(read_file(folder / "f.onnx") == read_file(folder / "g.onnx"));
  if (can_run()) {
    jit::export_function(f, folder / "f.hpp", x);
    CHECK_CONTAINS(read_file(folder / "f.hpp"), "model(");
  }
  const std::string said = error_of<UserError>([&] { jit::export_function(f, folder / "f.bin", x); });
  CHECK_CONTAINS(said, "export_function: the ending of '");
  CHECK_CONTAINS(said, "end it in .onnx, in .hpp or .h (a C++ header)");
  CHECK_FALSE(std::ifstream(folder / "f.bin").good());
}
