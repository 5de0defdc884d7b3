// What a function returns in containers, as outputs of an ONNX model.
#include "catch.hpp"
#include "checks.hpp"
#include "temporary_folder.hpp"

#include <sinter/onnx.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;

TEST_CASE("results in containers are outputs of a model one after the other", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  const auto several = [](Tensor a) {
    return std::pair(std::vector<Tensor>{a + 1, sum(a, 0)}, std::map<std::string, Tensor>{{"twice", a * 2}});
  };
  jit::export_onnx(several, {.path = path, .outputs = {"up", "sums", "twice"}}, x);
  const io::OnnxModel model = io::load_onnx(path);
  REQUIRE(model.outputs().size() == 3);
  const std::vector<Tensor> found = model({x});
  CHECK(floats(found[0]) == std::vector<float>{2, 3, 4, 5});
  CHECK(floats(found[1]) == std::vector<float>{4, 6});
  CHECK(floats(found[2]) == std::vector<float>{2, 4, 6, 8});
  for (const std::string& said :
       {message_of([&] { jit::export_onnx([](Tensor a) { return std::pair(a, 3); }, path, x); }), message_of([&] {
          jit::export_onnx([](Tensor a) { return std::vector{std::pair(a, std::string("x"))}; }, path, x);
        }),
        message_of([&] { jit::export_onnx([](Tensor a) { return std::pair(a, a.size(0)); }, path, x); })})
    CHECK(said.find("returns a number, text or an extent") != std::string::npos);
}
