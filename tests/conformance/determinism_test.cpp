// Determinism: the same bits for any number of threads, for static and dynamic code, call after call, and (f32 and f64)
// on both instruction sets: the hashes below were written by one and must be met by the other (SINTER_ISA=avx2 runs
// this file again).
#include "op_table.hpp"

#include <sinter/base/threads.hpp>

#include <cstring>

using namespace sinter_test;

namespace {

struct RestoreThreads {
  int threads = thread_count();
  ~RestoreThreads() { set_thread_count(threads); }
};

/// FNV-1a over the bytes.
std::uint64_t hash_of(const Tensor& t) {
  std::uint64_t hash = 0xCBF29CE484222325;
  visit_dtype(t.dtype(), [&](auto tag) {
    for (auto value : t.data<decltype(tag)>()) {
      unsigned char bytes[sizeof value];
      std::memcpy(bytes, &value, sizeof value);
      for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001B3;
    }
  });
  return hash;
}

struct Program {
  const char* name;
  std::vector<Extents> inputs;
  Tensor (*run)(const Inputs&);
  std::uint64_t f32 = 0, f64 = 0;  // of the result's bytes
};

/// Sizes pass the blocks of the fixed order of sums, vectors of every width and what is worth a second thread.
const std::vector<Program>& programs() {
  static const std::vector<Program> list{
      {"sum of all", {{100003}}, [](const Inputs& in) { return sum(in[0]); }, 0xC226FC8838DF25A3, 0x29FEF1F14214309D},
      {"sum of a few", {{37}}, [](const Inputs& in) { return sum(in[0]); }, 0x18A58A59A60E9043, 0xEA236E80F1438BC2},
      {"sum of 4097", {{4097}}, [](const Inputs& in) { return sum(in[0]); }, 0xD2337B604E688733, 0x123EC8BB435109D3},
      {"sum of rows",
       {{61, 5003}},
       [](const Inputs& in) { return sum(in[0], 1); },
       0x1BFE33C3FC571A71,
       0xB59E8A38A7B71507},
      {"sum of short rows",
       {{5003, 13}},
       [](const Inputs& in) { return sum(in[0], 1); },
       0xF2DA0E5DB69C821E,
       0x5830631C8F676C1F},
      {"sum of columns",
       {{5003, 61}},
       [](const Inputs& in) { return sum(in[0], 0); },
       0x52078C879D01E1F3,
       0x9FF8977CFB108760},
      {"sum of the middle",
       {{7, 803, 33}},
       [](const Inputs& in) { return sum(in[0], 1); },
       0x37C489C2475ADD52,
       0x3A21F631D8825371},
      {"sum of both ends",
       {{7, 203, 33}},
       [](const Inputs& in) { return sum(in[0], {0, 2}); },
       0x13F3959C72DE215E,
       0x13FEBB4FB1F3CCF7},
      {"sum of a transposed matrix",
       {{203, 333}},
       [](const Inputs& in) { return sum(in[0].t(), 1); },
       0x76982F3750A6B178,
       0x958B47D6D9AB7CEC},
      {"sum of squares",
       {{100003}},
       [](const Inputs& in) { return sum(square(in[0]) + in[0]); },
       0xD0853DB53AADDBC1,
       0x51AB12A7DCA842A1},
      {"mean",
       {{61, 1003}},
       [](const Inputs& in) { return mean(in[0], {0, 1}); },
       0x524A881A5F1FE713,
       0x9D279AAC5C1812F5},
      {"var", {{61, 1003}}, [](const Inputs& in) { return var(in[0], 1); }, 0xFB655172BD51C502, 0x41AF90DEEEAA83F2},
      {"var of columns",
       {{5003, 61}},
       [](const Inputs& in) { return var(in[0], 0); },
       0x4FBF6B97076E945C,
       0x9AA940BC7E3CFAA1},
      {"prod",
       {{61, 103}},
       [](const Inputs& in) { return prod(in[0] * 0.1 + 1, 1); },
       0xB76A38BB04CA9649,
       0x4E2B2A0CFB33C605},
      {"amax", {{61, 1003}}, [](const Inputs& in) { return amax(in[0], 0); }, 0x536BB4B0499227A8, 0x6438B42D47A7201A},
      {"argmin",
       {{61, 1003}},
       [](const Inputs& in) { return argmin(in[0], 1); },
       0x853E9AEF0BDAD099,
       0x853E9AEF0BDAD099},
      {"functions",
       {{100003}},
       [](const Inputs& in) {
         return Tensor(exp(in[0]) + sin(in[0]) * cos(in[0] * 3) - tanh(in[0]) / (erf(in[0]) + 3) +
                       log(square(in[0]) + 1));
       },
       0x8CC05DCA1E9A6ED0,
       0xB3A1EAAB2E147263},
      {"more functions",
       {{30011}},
       [](const Inputs& in) {
         return Tensor(gelu(in[0]) + sigmoid(in[0]) * rsqrt(square(in[0]) + 1) + pow(abs(in[0]) + 0.1, 1.7) +
                       silu(in[0]));
       },
       0x44C2666F1B24C584,
       0xCF5DE6C09C84B855},
      {"softmax",
       {{203, 517}},
       [](const Inputs& in) { return softmax(in[0], 1); },
       0xCF1CC52C3FF50B6E,
       0x9A8AB74EFDC3F301},
      {"softmax along 0",
       {{203, 517}},
       [](const Inputs& in) { return softmax(in[0], 0); },
       0xA72F992F56FCC362,
       0x13F936AED2FF8A11},
      {"log_softmax",
       {{203, 517}},
       [](const Inputs& in) { return log_softmax(in[0], 1); },
       0x3902896B00385653,
       0xF90ED2AF128BF7C6},
      {"logsumexp",
       {{203, 5017}},
       [](const Inputs& in) { return logsumexp(in[0], 1); },
       0x64461412A93F117E,
       0xE3A98F8068BAC6A2},
      {"layer_norm",
       {{203, 517}, {517}, {517}},
       [](const Inputs& in) { return layer_norm(in[0], in[1].shape(), in[1], in[2]); },
       0xB25C8DF2B4276666,
       0x75C4D21B2064D24B},
      {"cross_entropy",
       {{1203, 17}},
       [](const Inputs& in) { return cross_entropy(in[0], arange(in[0].size(0)) % 17); },
       0x881771F2029EF9D9,
       0x37A03D00B2D49AB0},
      {"matmul",
       {{203, 517}, {517, 131}},
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       0xC4214A972E3B8310,
       0xC40E28BF524EDD84},
      {"matmul of many terms",
       {{37, 20011}, {20011, 19}},
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       0xB1E510B63FFAE587,
       0xD1395EA18B8F5870},
      {"matmul of many terms and a bias",
       {{20011, 19}, {20011, 3}, {3}},
       [](const Inputs& in) { return Tensor(matmul(in[0].t(), in[1]) + in[2]); },
       0xCDE335F0BC8B8B38,
       0xC3C38F8F09FEA08A},
      {"matmul of small ones",
       {{50, 9, 17}, {50, 17, 21}},
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       0x9998C6D02A7A78B4,
       0xDC6F9CA766BBE331},
      {"matmul of a transposed matrix",
       {{517, 203}, {517, 131}},
       [](const Inputs& in) { return matmul(in[0].t(), in[1]); },
       0x26D9CEB0358FB057,
       0xA5B8E9E01B76D17F},
      {"matmul of a vector",
       {{503, 2017}, {2017}},
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       0x5E122F1363EFF99C,
       0x783FB927FD21C585},
      {"inner product",
       {{50021}, {50021}},
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       0x692FDC5CBFF0396F,
       0x8F8FEC9A6FF9EB9A},
      {"dense layer",
       {{203, 77}, {77, 131}, {131}},
       [](const Inputs& in) { return Tensor(relu(matmul(in[0], in[1]) + in[2])); },
       0x50638F61B5762A4C,
       0xFF38EF1315E54370},
      {"conv2d",
       {{5, 3, 28, 28}, {8, 3, 3, 3}},
       [](const Inputs& in) { return conv2d(in[0], in[1], {.stride = 1, .padding = 1}); },
       0xAC236E1DCC43208F,
       0x138386FCA7CD9C81},
      {"max_pool2d",
       {{5, 3, 28, 28}},
       [](const Inputs& in) { return max_pool2d(in[0], 2); },
       0x520FFE7E66E779B4,
       0x9A49D00D40966565},
      {"attention",
       {{2, 2, 65, 16}, {2, 2, 65, 16}, {2, 2, 65, 16}},
       [](const Inputs& in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true}); },
       0x4793BDCDD74F8A27,
       0x0D021F27AD809028},
      {"gradient of an MLP",
       {{203, 77}, {77, 33}, {33, 7}},
       [](const Inputs& in) {
         const Inputs g = jit::grad([](const Inputs& p) {
           return cross_entropy(matmul(tanh(matmul(p[0], p[1])), p[2]), arange(p[0].size(0)) % 7);
         })(in);
         return concat({reshape(g[0], {-1}), reshape(g[1], {-1}), reshape(g[2], {-1})}, 0);
       },
       0xF35E6B8958A0BB9C,
       0x9D97D43D7BB8D9B7},
      {"randn",
       {{30011}},
       [](const Inputs& in) {
         manual_seed(5);
         return Tensor(in[0] + randn(in[0].shape(), {.dtype = in[0].dtype()}));
       },
       0x0BC299EA2B9F4426,
       0x82D6E19DE50F8BE9},
  };
  return list;
}

Inputs inputs_of(const Program& program, DType dtype, std::int64_t rows = 0) {
  std::vector<Spec> specs;
  for (Extents extents : program.inputs) {
    if (rows > 0) extents[0] = rows;
    specs.push_back({extents, dtype, {-2, 2}});
  }
  return tensors(make_inputs(specs, default_n));
}

const char* best_backend() { return modes()[0].backend; }
auto compiled_for(const Program& program, jit::Dynamic dynamic) {
  return jit::compile([run = program.run](const Inputs& in) { return run(in); },
                      {.backend = best_backend(), .dynamic = dynamic});
}

}  // namespace

TEST_CASE("determinism: the same bits for one thread and for two, call after call") {
  RestoreThreads restore;
  for (const Program& program : programs())
    for (DType dtype : {DType::f32, DType::f64}) {
      INFO(program.name << " " << std::string(name(dtype)));
      const Inputs in = inputs_of(program, dtype);
      const auto f = compiled_for(program, jit::Dynamic::never);
      set_thread_count(1);
      const std::uint64_t alone = hash_of(f(in));
      for (int threads : {2, 3, 2, 1}) {
        set_thread_count(threads);
        INFO(threads << " threads");
        CHECK(hash_of(f(in)) == alone);
      }
      set_thread_count(1);  // lazy code may be fused otherwise; it must only agree with itself
      const std::uint64_t lazy = hash_of(program.run(in));
      set_thread_count(2);
      CHECK(hash_of(program.run(in)) == lazy);
    }
}

TEST_CASE("determinism: static and dynamic code give the same bits") {
  for (const Program& program : programs())
    for (DType dtype : {DType::f32, DType::f64}) {
      INFO(program.name << " " << std::string(name(dtype)));
      const Inputs in = inputs_of(program, dtype);
      const std::uint64_t fixed = hash_of(compiled_for(program, jit::Dynamic::never)(in));
      CHECK(hash_of(compiled_for(program, jit::Dynamic::always)(in)) == fixed);
    }
}

TEST_CASE("determinism: AVX2 and AVX-512 give the same bits") {
  if (std::string(best_backend()) != "x86") SINTER_SKIP("this build has no x86 back end");
  for (const Program& program : programs())
    for (DType dtype : {DType::f32, DType::f64}) {
      INFO(program.name << " " << std::string(name(dtype)));
      const std::uint64_t hash = hash_of(compiled_for(program, jit::Dynamic::never)(inputs_of(program, dtype)));
      char text[24];
      std::snprintf(text, sizeof text, "0x%016llX", static_cast<unsigned long long>(hash));
      INFO("hash " << text);
      CHECK(hash == (dtype == DType::f32 ? program.f32 : program.f64));
    }
}

TEST_CASE("determinism: reductions of integers are the same on every back end") {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const Tensor x = arange(0, 100001, 1) * 7919 % 1000003;
    CHECK(item<std::int64_t>(run_in(mode, [](const Inputs& in) { return sum(in[0]); }, {x})) == [] {
      std::int64_t total = 0;
      for (std::int64_t i = 0; i < 100001; ++i) total += i * 7919 % 1000003;
      return total;
    }());
  }
}
