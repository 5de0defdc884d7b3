// Files of tensors: what NumPy and PyTorch wrote is read, what is written is read back bit by bit, damaged files are
// errors that name the file, and checkpoints survive being killed (their folders: checkpoint_test.cpp).
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <sinter/sinter.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;

namespace {
const std::string stored = std::string(SINTER_SOURCE_DIR) + "/tests/unit/io_files/";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// 0, 1, ..., of shape (2, 3), as the stored files hold them.
/// 0, 1, 2, ..., of complex numbers times 1 + 2i.
Tensor counts(DType dtype) {
  const Tensor x = arange(6).reshape({2, 3}).to(dtype);
  return is_complex(dtype) ? complex(real(x), real(x) * 2) : x;
}

void require_same(const Tensor& found, const Tensor& wanted) {
  REQUIRE(found.dtype() == wanted.dtype());
  REQUIRE(found.shape().text() == wanted.shape().text());
  const auto numbers = [](const Tensor& x) { return to_vector<double>(is_complex(x) ? view_as_real(x) : x); };
  REQUIRE(numbers(found) == numbers(wanted));
}

io::TensorMap all_dtypes() {
  io::TensorMap map;
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    map.emplace(std::string(name(dtype)), dtype == DType::bool_ ? (arange(6) % 2 == 1).reshape({2, 3}) : counts(dtype));
  }
  map.emplace("number", full({}, 7));
  map.emplace("nothing", zeros({0, 4}));
  map.emplace("a \"name\"\n\\", ones({1}));
  return map;
}

/// All but f8, which NumPy does not have.
io::TensorMap all_of_numpy() {
  io::TensorMap map = all_dtypes();
  map.erase("f8e4m3");
  map.erase("f8e5m2");
  return map;
}

/// All but c128, for which the format has no name.
io::TensorMap all_of_safetensors() {
  io::TensorMap map = all_dtypes();
  map.erase("c128");
  return map;
}

void require_same(const io::TensorMap& found, const io::TensorMap& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (const auto& [name, x] : wanted) {
    INFO(name);
    REQUIRE(found.count(name) == 1);
    require_same(found.at(name), x);
  }
}

template <class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const IoError& error) { return error.what(); }
  return "no error";
}

std::string safetensors_file(const std::string& header, std::size_t data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + std::string(data, '\0');
}

struct Linear {
  Variable weight, bias;
  SINTER_FIELDS(weight, bias)
};
struct Net {
  std::vector<Linear> layers;
  Tensor mean = zeros({3});
  SINTER_FIELDS(layers, mean)
};
Net make_net(float value) {
  Net net;
  for (int i = 0; i < 2; ++i)
    net.layers.push_back({Variable(full({3, 3}, value + static_cast<float>(i))), Variable(full({3}, value))});
  return net;
}
}  // namespace

TEST_CASE("npy files of NumPy are read", "[io]") {
  for (const auto& [file, dtype] :
       {std::pair("u1", DType::u8), std::pair("i1", DType::i8), std::pair("u2", DType::u16),
        std::pair("i2", DType::i16), std::pair("u4", DType::u32), std::pair("i4", DType::i32),
        std::pair("i8", DType::i64), std::pair("u8", DType::u64), std::pair("f2", DType::f16),
        std::pair("f4", DType::f32), std::pair("f8", DType::f64), std::pair("c8", DType::c64),
        std::pair("c16", DType::c128), std::pair("big_endian_c8", DType::c64), std::pair("fortran", DType::f32),
        std::pair("big_endian", DType::f32), std::pair("version2", DType::f32), std::pair("version3", DType::f32)}) {
    INFO(file);
    require_same(io::load_npy(stored + file + ".npy"), counts(dtype));
  }
  require_same(io::load_npy(stored + "b1.npy"), (arange(6) % 2 == 1).reshape({2, 3}));
}

TEST_CASE("npz files of NumPy are read, compressed ones are an error", "[io]") {
  require_same(io::load_npz(stored + "arrays.npz"), {{"first", counts(DType::f32)}, {"second", counts(DType::i64)}});
  const std::string text = message_of([] { io::load_npz(stored + "compressed.npz"); });
  CHECK(text.find("compressed.npz") != std::string::npos);
  CHECK(text.find("numpy.savez,") != std::string::npos);
}

TEST_CASE("safetensors of PyTorch are read", "[io]") {
  const io::SafeTensors file = io::read_safetensors(stored + "dtypes.safetensors");
  CHECK(file.metadata == std::map<std::string, std::string>{{"made by", "PyTorch"}});
  CHECK(file.tensors.size() == 11);
  require_same(file.tensors.at("bfloat16"), counts(DType::bf16));
  require_same(file.tensors.at("uint8"), counts(DType::u8));
  require_same(file.tensors.at("float64"), counts(DType::f64));
  require_same(file.tensors.at("uint32"), counts(DType::u32));
}

TEST_CASE("tensors of PyTorch's checkpoints are read, and nothing is called", "[io]") {
  const io::TensorMap tensors = io::load_pytorch(stored + "nested.pt");
  CHECK(tensors.size() == 8);
  require_same(tensors.at("model.weight"), counts(DType::f32));
  require_same(tensors.at("model.bias"), zeros({2}));
  require_same(tensors.at("list.0"), counts(DType::bf16));
  require_same(tensors.at("list.1"), counts(DType::f32));
  require_same(tensors.at("transposed"), counts(DType::f32));
  require_same(tensors.at("part"), tensor({std::int64_t{4}, std::int64_t{5}}));
  require_same(tensors.at("expanded"), ones({3, 2}));
  require_same(tensors.at("flags"), counts(DType::f32) > 2);
  const std::string text = message_of([] { io::load_pytorch(stored + "calls.pt"); });
  INFO(text);
  CHECK(text.find("calls.pt: byte ") != std::string::npos);
  CHECK(text.find("print, which makes no tensor") != std::string::npos);
  CHECK(message_of([] { io::load_pytorch(stored + "f4.npy"); }).find("no zip archive") != std::string::npos);
  CHECK(message_of([] { io::load_pytorch(stored + "arrays.npz"); }).find("holds no") != std::string::npos);
}

TEST_CASE("gguf files are read", "[io]") {
  const io::GgufFile file = io::load_gguf(stored + "model.gguf");
  CHECK(file.metadata.at("general.architecture") == "test");
  CHECK(file.metadata.at("count") == "7");
  CHECK(file.metadata.at("half") == "0.5");
  CHECK(file.metadata.at("words") == R"(["a","b\"c"])");
  for (const auto& [name, dtype] :
       {std::pair("i1", DType::i8), std::pair("i2", DType::i16), std::pair("i4", DType::i32),
        std::pair("i8", DType::i64), std::pair("f2", DType::f16), std::pair("f4", DType::f32),
        std::pair("f8", DType::f64)})
    require_same(file.tensors.at(name), counts(dtype));
  for (const char* name : {"Q8_0", "Q4_0"}) require_same(file.tensors.at(name), io::load_npy(stored + name + ".npy"));
  CHECK(message_of([] { io::load_gguf(stored + "f4.npy"); }).find("no GGUF file") != std::string::npos);

  // As weights of products: [n, k] of the file is the weight [k, n].
  const io::GgufFile kept = io::load_gguf(stored + "model.gguf", {.keep_quantized = true});
  CHECK(kept.tensors.size() + 2 == file.tensors.size());
  for (const char* name : {"Q8_0", "Q4_0"}) {
    const QuantizedWeight& weight = kept.weights.at(name);
    CHECK((weight.bits == (std::string(name) == "Q8_0" ? 8 : 4) && weight.group == 32 && weight.k == 64));
    CHECK(weight.scales.dtype() == DType::f16);
    const Tensor wide = dequantize(
        QuantizedWeight{weight.values, weight.scales.to(DType::f32), weight.zero_points, weight.bits, 32, 64});
    require_same(transpose(wide, 0, 1) + 0, io::load_npy(stored + name + ".npy"));
    CHECK(allclose(quantized_matmul(ones({64}), weight), sum(io::load_npy(stored + name + ".npy"), 1)));
  }
}

TEST_CASE("tensors of PyTorch whose storage has no dtype are read", "[io]") {
  require_same(io::load_pytorch(stored + "dtypes.pt"), {{"u16", counts(DType::u16)},
                                                        {"u32", counts(DType::u32)},
                                                        {"u64", counts(DType::u64)},
                                                        {"f8e4m3", counts(DType::f8e4m3)},
                                                        {"f8e5m2", transpose(counts(DType::f8e5m2), 0, 1)}});
}

TEST_CASE("what is written is read back", "[io]") {
  const Folder folder;
  const io::TensorMap all = all_dtypes(), numpy = all_of_numpy();
  for (const auto& [name, x] : numpy) {
    io::save_npy(folder / "x.npy", x);
    require_same(io::load_npy(folder / "x.npy"), x);
  }
  io::save_npz(folder / "x.npz", numpy);
  require_same(io::load_npz(folder / "x.npz"), numpy);
  CHECK_THROWS_AS(io::save_npy(folder / "f8.npy", all.at("f8e4m3")), DTypeError);
  CHECK_THROWS_AS(io::save_npz(folder / "f8.npz", all), DTypeError);
  CHECK(!std::filesystem::exists(folder / "f8.npy"));
  const io::TensorMap named = all_of_safetensors();
  io::save_safetensors(folder / "x.safetensors", named, {{"k", "v\t\u00e9"}});
  const io::SafeTensors back = io::read_safetensors(folder / "x.safetensors");
  require_same(back.tensors, named);
  CHECK_THROWS_AS(io::save_safetensors(folder / "y.safetensors", all), DTypeError);
  CHECK(!std::filesystem::exists(folder / "y.safetensors"));
  CHECK(back.metadata.at("k") == "v\t\u00e9");
  io::save_safetensors(folder / "none.safetensors", {});
  CHECK(io::load_safetensors(folder / "none.safetensors").empty());
  io::save_npz(folder / "none.npz", {});
  CHECK(io::load_npz(folder / "none.npz").empty());
}

TEST_CASE("a Tensor keeps its file, also when another takes its name", "[io]") {
  const Folder folder;
  io::save_safetensors(folder / "x.safetensors", {{"x", ones({1000})}});
  const Tensor x = io::load_safetensors(folder / "x.safetensors").at("x");
  io::save_safetensors(folder / "x.safetensors", {{"x", zeros({1000})}});
  CHECK(item<float>(sum(x)) == 1000);
  std::filesystem::remove(folder / "x.safetensors");
  CHECK(item<float>(sum(x)) == 1000);
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("safetensors in several files", "[io]") {
  const Folder folder;
  const io::TensorMap all = all_of_safetensors();
  const std::string index = io::save_safetensors_sharded(folder / "model", all, {.max_bytes = 50});
  CHECK(index == folder / "model.safetensors.index.json");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) > 4);
  require_same(io::load_safetensors(index), all);
  write_file(index, R"({"weight_map": {"x": "../other.safetensors"}})");
  CHECK(message_of([&] { io::load_safetensors(index); }).find("names no file beside") != std::string::npos);
}

TEST_CASE("safetensors that lie are errors that name the file and the place", "[io]") {
  const Folder folder;
  const std::string path = folder / "x.safetensors";
  const auto message = [&](const std::string& header, std::size_t data) {
    write_file(path, safetensors_file(header, data));
    return message_of([&] { io::load_safetensors(path); });
  };
  const auto tensor = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"({"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const auto has = [&](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    CHECK(text.find("x.safetensors: byte ") != std::string::npos);
  };
  CHECK(message("{\"a\":" + tensor("F32", "[1]", "[0,4]") + "}", 4) == "no error");
  has(message("{\"a\":" + tensor("F32", "[1]", "[0,8]") + "}", 8), "has 4 bytes");
  has(message("{\"a\":" + tensor("F32", "[2]", "[0,8]") + "}", 4), "has 4");
  has(message("{\"a\":" + tensor("F32", "[1]", "[4,8]") + "}", 8), "hole");
  has(message("{\"a\":" + tensor("F32", "[2]", "[0,8]") + ",\"b\":" + tensor("F32", "[1]", "[4,8]") + "}", 8),
      "overlaps");
  has(message("{\"a\":" + tensor("F8_E8M0", "[1]", "[0,1]") + "}", 1), "F8_E8M0");
  has(message("{\"a\":" + tensor("F32", "[4294967296,4294967296]", "[0,0]") + "}", 0), "2^60");
  has(message("{\"a\":" + tensor("F32", "[-1]", "[0,4]") + "}", 4), "no list of whole numbers");
  has(message("{\"a\":" + tensor("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4), "rank 9");
  has(message("{\"a\":" + tensor("F32", "[99999999999999999999]", "[0,4]") + "}", 4), "no list of whole numbers");
  has(message("{\"a\":1,\"a\":1}", 0), "stands twice");
  has(message(std::string(100000, '['), 0), "32 levels");
  has(message("{} x", 0), "after the end");
  has(message("[]", 0), "no object");
  write_file(path, safetensors_file("{\"a\":" + tensor("BOOL", "[1]", "[0,1]") + "}", 0) + '\x02');
  has(message_of([&] { io::load_safetensors(path); }), "neither 0 nor 1");
  write_file(path, std::string(8, '\xff'));
  has(message_of([&] { io::load_safetensors(path); }), "a header of");
  CHECK(message_of([&] { io::load_safetensors(folder / "none"); }).find("cannot be opened") != std::string::npos);
  CHECK(message_of([&] { io::load_safetensors(folder.path); }).find("no regular file") != std::string::npos);
  CHECK(message_of([&] { io::save_npy(folder / "a/b.npy", ones({1})); }).find("make its folder") != std::string::npos);
}

TEST_CASE("damaged files of tensors are read or are errors, nothing else", "[io]") {
  const Folder folder;
  const unsigned seed = 20240607;
  std::mt19937 random(seed);
  const io::TensorMap all = all_of_safetensors();
  io::save_safetensors(folder / "a.safetensors", all);
  io::save_npz(folder / "a.npz", all_of_numpy());
  io::save_npy(folder / "a.npy", all.at("f32"));
  std::filesystem::copy_file(stored + "nested.pt", folder / "a.pt");
  std::filesystem::copy_file(stored + "model.gguf", folder / "a.gguf");
  const std::pair<const char*, std::function<void(const std::string&)>> kinds[] = {
      {"a.safetensors",
       [](const std::string& path) {
         for (auto& entry : io::load_safetensors(path)) to_string(entry.second);
       }},
      {"a.pt",
       [](const std::string& path) {
         for (auto& entry : io::load_pytorch(path)) to_string(entry.second);
       }},
      {"a.gguf",
       [](const std::string& path) {
         for (auto& entry : io::load_gguf(path).tensors) to_string(entry.second);
       }},
      {"a.npz",
       [](const std::string& path) {
         for (auto& entry : io::load_npz(path)) to_string(entry.second);
       }},
      {"a.npy", [](const std::string& path) { to_string(io::load_npy(path)); }}};
  for (const auto& [file, load] : kinds) {
    const std::string whole = read_file(folder / file);
    int errors = 0;
    for (int round = 0; round < 400; ++round) {
      std::string bytes = whole;
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
      for (unsigned edits = random() % 4; edits > 0 && !bytes.empty(); --edits) {
        const bool is_early = random() % 2 == 0;
        const std::size_t at = random() % (is_early ? std::min<std::size_t>(bytes.size(), 80) : bytes.size());
        bytes[at] = random() % 2 == 0 ? static_cast<char>(random()) : static_cast<char>(0xff);
      }
      INFO(file << ", seed " << seed << ", round " << round);
      write_file(folder / "damaged", bytes);
      try {
        load(folder / "damaged");
      } catch (const IoError& error) {
        CHECK(std::string(error.what()).find("damaged: byte") != std::string::npos);
        ++errors;
      }
    }
    CHECK(errors > 50);
  }
}

TEST_CASE("state_dict names what is in a model, load_state_dict puts it back", "[io]") {
  const Net net = make_net(1);
  const io::TensorMap state = io::state_dict(net);
  CHECK(state.size() == 5);
  CHECK(to_vector<float>(state.at("layers.1.weight"))[0] == 2);
  CHECK(state.count("layers.0.bias") == 1);
  CHECK(state.count("mean") == 1);
  Net other = make_net(5);
  other.mean = ones({3});
  const io::LoadReport report = io::load_state_dict(other, state);
  CHECK(report.loaded.size() == 5);
  CHECK(report.is_complete());
  CHECK(report.text().empty());
  CHECK(to_vector<float>(other.layers[1].weight.value())[0] == 2);
  CHECK(item<float>(sum(other.mean)) == 0);
  struct Pair {
    Tensor a, b;
  };
  const io::TensorMap numbered = io::state_dict(Pair{ones({1}), ones({2})});
  CHECK(numbered.count("0") + numbered.count("1") == 2);
  std::map<std::string, Tensor> by_key{{"w", ones({1})}};
  CHECK(io::state_dict(by_key).count("w") == 1);
}

TEST_CASE("load_state_dict says what did not fit, and changes nothing then", "[io]") {
  Net net = make_net(1);
  io::TensorMap state = io::state_dict(make_net(5));
  state.erase("layers.0.bias");
  state.insert_or_assign("mean", ones({4}));
  state.emplace("other", ones({1}));
  try {
    io::load_state_dict(net, state);
    FAIL("no error");
  } catch (const UserError& error) {
    const std::string text = error.what();
    CHECK(text.find("missing: layers.0.bias\n") != std::string::npos);
    CHECK(text.find("unexpected: other\n") != std::string::npos);
    CHECK(text.find("mean: the model has (3,), the state (4,)") != std::string::npos);
    CHECK(text.find("io_test.cpp:") != std::string::npos);
  }
  CHECK(to_vector<float>(net.layers[0].weight.value())[0] == 1);
  const io::LoadReport report = io::load_state_dict(net, state, {.strict = io::Strict::no});
  CHECK(report.loaded.size() == 3);
  CHECK(report.missing == std::vector<std::string>{"layers.0.bias"});
  CHECK(report.unexpected == std::vector<std::string>{"other"});
  CHECK(report.wrong.size() == 1);
  CHECK(to_vector<float>(net.layers[0].weight.value())[0] == 5);
}

TEST_CASE("renames, and values of other dtypes", "[io]") {
  io::TensorMap state;
  for (auto& [name, value] : io::state_dict(make_net(5))) state.emplace("model." + name, value.to(DType::f64));
  Net net = make_net(1);
  CHECK(io::load_state_dict(net, state, {.renames = {{"model.", ""}}}).is_complete());
  CHECK(net.layers[0].weight.dtype() == DType::f32);
  CHECK(to_vector<float>(net.layers[1].weight.value())[0] == 6);
}

TEST_CASE("a const Tensor of a model cannot be loaded, and is said to be", "[io]") {
  struct Fixed {
    const Tensor table{ones({2})};
    Variable weight{zeros({2})};
  };
  Fixed model;
  const io::TensorMap state{{"0", zeros({2})}, {"1", ones({2})}};
  CHECK_THROWS_AS(io::load_state_dict(model, state), UserError);
  CHECK(to_vector<float>(model.weight.value()) == std::vector<float>{0, 0});
  const io::LoadReport report = io::load_state_dict(model, state, {.strict = io::Strict::no});
  CHECK(report.loaded == std::vector<std::string>{"1"});
  CHECK(report.text().find("0: is const in the model") != std::string::npos);
}

TEST_CASE("what is saved in the background is the state at the call", "[io]") {
  const Folder folder;
  struct Training {
    Variable weight{ones({300000})};
  };
  Training training;
  const auto step = jit::compile([training](Tensor x) {
    training.weight -= x;
    return sum(training.weight);
  });
  const Tensor gradient = full({300000}, 0.5);
  step(gradient);
  for (int number = 1; number <= 5; ++number) {
    io::save_checkpoint(folder.path, number, training, {.keep = 0, .background = true});
    for (int i = 0; i < 4; ++i) step(gradient);  // in place, unless somebody holds the value
  }
  io::wait_for_checkpoints();
  CHECK(io::list_checkpoints(folder.path) == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  for (int number = 1; number <= 5; ++number) {
    Training found;
    REQUIRE(io::load_checkpoint(folder.path, found, number));
    const float wanted = 0.5f - 2.0f * static_cast<float>(number - 1);
    REQUIRE(to_vector<float>(found.weight.value()) == std::vector<float>(300000, wanted));
  }
}

TEST_CASE("memory of others is copied for a checkpoint in the background", "[io]") {
  const Folder folder;
  const auto memory = std::make_shared<std::vector<float>>(1 << 20, 1.0f);
  const std::vector<Tensor> state{from_blob(memory, memory->data(), {1 << 20}, DType::f32)};
  io::save_checkpoint(folder.path, 1, state, {.background = true});
  std::fill(memory->begin(), memory->end(), 2.0f);
  io::wait_for_checkpoints();
  std::vector<Tensor> found{zeros({1 << 20})};
  io::load_checkpoint(folder.path, found);
  CHECK(to_vector<float>(found[0]) == std::vector<float>(1 << 20, 1.0f));
}

TEST_CASE("threads that save into one folder do so one after the other", "[io]") {
  const Folder folder;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      const std::vector<Tensor> state{full({50000}, thread)};
      for (int i = 0; i < 8; ++i)
        io::save_checkpoint(folder.path, 8 * thread + i, state, {.keep = 0, .background = i % 2 == 0});
    });
  for (std::thread& thread : threads) thread.join();
  io::wait_for_checkpoints();
  CHECK(io::list_checkpoints(folder.path).size() == 32);
}

TEST_CASE("what fails in the background is thrown by the next call", "[io]") {
  const Folder folder;
  const std::vector<Tensor> state{ones({2})};
  const auto block = [&](int step) {
    const std::string at = folder / ("checkpoint_000000000" + std::to_string(step) + ".safetensors");
    std::filesystem::create_directories(at + "/in the way");
    return at;
  };
  const std::string first = block(1);
  io::save_checkpoint(folder.path, 1, state, {.background = true});
  CHECK(message_of([&] { io::save_checkpoint(folder.path, 2, state); }).find(first) != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoint_0000000002.safetensors"));
  io::save_checkpoint(folder.path, 2, state);  // said once
  block(3);
  io::save_checkpoint(folder.path, 3, state, {.background = true});
  CHECK_THROWS_AS(io::wait_for_checkpoints(), IoError);
  io::wait_for_checkpoints();
  block(4);
  io::save_checkpoint(folder.path, 4, state, {.background = true});
  std::vector<Tensor> found{zeros({2})};
  CHECK_THROWS_AS(io::load_checkpoint(folder.path, found, 2), IoError);
  CHECK(io::load_checkpoint(folder.path, found, 2)->step == 2);
}

TEST_CASE("a program that ends writes what it saves in the background first", "[io]") {
  const Folder folder;
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    io::save_checkpoint(folder.path, 7, std::vector<Tensor>{ones({4000000})}, {.background = true});
    std::exit(0);  // NOLINT: handlers run
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(io::list_checkpoints(folder.path) == std::vector<std::int64_t>{7});
}

TEST_CASE("a run that is killed leaves whole checkpoints", "[io]") {
  const Folder folder;
  std::mt19937 random(7);
  std::int64_t before = -1;
  const auto newest = [&]() -> std::int64_t {
    const std::vector<std::int64_t> steps = io::list_checkpoints(folder.path);
    return steps.empty() ? -1 : steps.back();
  };
  for (int round = 0; round < 8; ++round) {
    const bool background = round % 2 == 1;
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        for (std::int64_t step = before + 1;; ++step)
          io::save_checkpoint(folder.path, step, std::vector<Tensor>{full({20000}, static_cast<double>(step))},
                              {.background = background});
      } catch (...) { ::_exit(1); }
    }
    for (int wait = 0; wait < 20000 && newest() <= before; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    REQUIRE(newest() > before);
    for (const std::int64_t step : io::list_checkpoints(folder.path)) {
      std::vector<Tensor> state{zeros({20000})};
      REQUIRE(io::load_checkpoint(folder.path, state, step));
      REQUIRE(to_vector<float>(state[0]) == std::vector<float>(20000, static_cast<float>(step)));
      REQUIRE(step + 4 > before);
      before = std::max(before, step);
    }
  }
  io::save_checkpoint(folder.path, before + 1, std::vector<Tensor>{zeros({1})}, {.keep = 1});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

namespace {
struct CallableNet {
  std::vector<Linear> layers;
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const Linear& layer : layers) y = tanh(matmul(y, layer.weight) + layer.bias);
    return y;
  }
  SINTER_FIELDS(layers)
};
}  // namespace

TEST_CASE("compiling a model leaves the names and the Variables of its state as they are", "[io]") {
  CallableNet net;
  net.layers = make_net(0.5f).layers;
  const io::TensorMap before = io::state_dict(net);
  auto f = jit::compile(net);
  f(ones({2, 3}));
  for (const io::TensorMap& state : {io::state_dict(net), io::state_dict(f.function())}) {
    REQUIRE(state.size() == before.size());
    for (const auto& [name, value] : before) require_same(state.at(name), value);
  }
  // What is loaded into the compiled one is the model's, too.
  io::TensorMap zero = before;
  for (auto& entry : zero) entry.second = zeros({}) * entry.second;
  io::load_state_dict(net, zero);
  CHECK(to_vector<float>(f(ones({2, 3}))) == std::vector<float>(6, 0.f));
}

TEST_CASE("a file of 16 GiB is read without a copy", "[io]") {
  const Folder folder;
  const std::string path = folder / "large.safetensors";
  constexpr std::int64_t elements = std::int64_t{1} << 32, bytes = 4 * elements;
  std::string head = R"({"w":{"dtype":"F32","shape":[65536,65536],"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
  while (head.size() % 64 != 56) head += ' ';
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(head.size() >> (8 * i));
  write_file(path, file + head);
  const auto begin = static_cast<std::int64_t>(file.size() + head.size());
  if (::truncate(path.c_str(), begin + bytes) != 0) SINTER_SKIP("no sparse files of 16 GiB");
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  const float last = 42;
  out.seekp(begin + bytes - 4).write(reinterpret_cast<const char*>(&last), 4);
  out.close();
  const auto resident_pages = [] {
    std::ifstream status("/proc/self/statm");
    std::int64_t all = 0, resident = 0;
    status >> all >> resident;
    return resident;
  };
  const std::int64_t pages = resident_pages();
  const Tensor w = io::load_safetensors(path).at("w");
  CHECK(w.shape().text() == "(65536, 65536)");
  const Tensor corner = w(slice(65534, 65536), slice(65533, 65536)) * 2;
  CHECK(to_vector<float>(corner) == std::vector<float>{0, 0, 0, 0, 0, 84});
  CHECK(resident_pages() - pages < (std::int64_t{64} << 20) / 4096);
}
