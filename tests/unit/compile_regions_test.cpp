// compile_regions: blocks of any model, found by their types, each compiled once.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/jit/config/configuration.hpp>
#include <sinter/regions.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace sinter;

namespace {
struct Attention {
  Variable w;
  Tensor operator()(Tensor x) const { return softmax(matmul(x, w), 1); }
  SINTER_FIELDS(w)
};
struct Mlp {
  Variable w;
  template <class X>
  Tensor operator()(const X& x) const {
    return tanh(matmul(x, w));
  }
};
struct Encoder {
  std::vector<Attention> attention;
  std::vector<Mlp> mlps;
  SINTER_FIELDS(attention, mlps)
};
struct Model {
  Variable embedding;
  Encoder encoder;
  std::map<std::string, std::vector<Encoder>> more;
  std::vector<Mlp> none;
  std::vector<int> sizes;
};
/// Undoes what configure_from() did.
struct Configured {
  ~Configured() { jit::reset_configuration(); }
};
}  // namespace

TEST_CASE("compile_regions: any model") {
  Model model{Variable(ones({3, 3})), {}, {}, {}, {1, 2}};
  for (int i = 0; i < 4; ++i) {
    model.encoder.attention.push_back({Variable(ones({3, 3}) * 0.1f * i)});
    model.encoder.mlps.push_back({Variable(ones({3, 3}) * 0.2f * i)});
  }
  model.more.emplace("a", std::vector<Encoder>(1, model.encoder));
  const auto regions = jit::compile_regions(model);
  REQUIRE(regions.found().size() == 4);
  CHECK(has(regions.text(), "1.attention: 4 of "));
  CHECK(has(regions.text(), "2[\"a\"][0].mlps: 4 of "));
  Tensor x = ones({2, 3}), wanted = x;
  for (std::size_t i = 0; i < 4; ++i) {
    x = regions(model.encoder.mlps[i], regions(model.encoder.attention[i], x));
    wanted = model.encoder.mlps[i](model.encoder.attention[i](wanted));
  }
  CHECK(near(doubles(x), doubles(wanted), 1e-6));
  CHECK(regions.stats<Mlp>().compiles == 1);
  CHECK(regions.stats<Mlp>().calls == 4);
  CHECK(regions.stats<Attention>().calls == 4);
  Variable w = model.encoder.mlps[3].w;  // trained from outside
  w.requires_grad();
  Tensor loss = sum(regions(model.encoder.mlps[3], ones({2, 3})));
  loss.backward();
  const double slope = 2 * (1 - std::pow(std::tanh(1.8), 2));
  CHECK(near(doubles(w.grad()), std::vector<double>(9, slope), 1e-5));
  const Mlp other{Variable(ones({3, 3}))};  // of a kind that is known
  CHECK(near(doubles(regions(other, ones({1, 3}))), std::vector<double>(3, std::tanh(3.0)), 1e-5));
  struct Unknown {
    Tensor operator()(Tensor a) const { return a + 1; }
  };
  CHECK(floats(regions(Unknown(), ones({2}))) == std::vector<float>(2, 2));
  CHECK_THROWS_AS(regions(other, ones({1, 4})), ShapeError);  // the caller's mistake, and the region goes on
  CHECK(near(doubles(regions(other, ones({1, 3}))), std::vector<double>(3, std::tanh(3.0)), 1e-5));
  CHECK(jit::compile_regions(Encoder()).found().empty());
  CHECK(has(jit::compile_regions(Encoder()).text(), "no lists of blocks were found"));
}

TEST_CASE("compile_regions: settings by pattern") {
  if (!jit::reads_configuration_files()) SINTER_SKIP("built without yaml-cpp");
  const Configured undo;
  jit::configure_from("regions: {'*attention': {compile: false}, '*mlps': {backend: reference}}");
  Encoder encoder;
  encoder.attention.push_back({Variable(ones({3, 3}))});
  encoder.mlps.push_back({Variable(ones({3, 3}))});
  const auto regions = jit::compile_regions(encoder);
  CHECK(has(regions.text(), "attention: 1 of "));
  CHECK_FALSE(regions.found()[0].is_compiled);
  CHECK(regions.found()[1].is_compiled);
  regions(encoder.attention[0], ones({2, 3}));
  regions(encoder.mlps[0], ones({2, 3}));
  CHECK(regions.stats<Attention>().calls == 0);
  CHECK(regions.stats<Mlp>().calls == 1);
}
