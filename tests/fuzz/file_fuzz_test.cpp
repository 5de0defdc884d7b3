// Fuzzing of the readers of files: safetensors, npy, npz, PyTorch's, GGUF, ONNX. Bytes of whole files are changed, cut
// out, doubled and taken from other files of the format. A reader gives Tensors, all of whose elements can be read, or
// throws an Error; under the sanitizers nothing is read that is not there.
#include "../catch.hpp"
#include "../temporary_folder.hpp"
#include "fuzz_loop.hpp"

#include <sinter/onnx.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
// The sanitizer's own operator new ends the program where memory is refused. These throw, with
// allocator_may_return_null (tools/fuzz_files sets it).
void* operator new(std::size_t size) {
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
#endif

using namespace sinter;
using namespace sinter_test;

namespace {

const std::string stored = std::string(SINTER_SOURCE_DIR) + "/tests/unit/io_files/";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string file(const std::vector<std::string>& seeds) {
    std::string bytes = seeds[below(seeds.size())];
    for (std::size_t left = 1 + below(1 + below(6)); left > 0; --left) mutate(bytes, seeds);
    if (below(16) == 0) bytes.resize(below(bytes.size() + 1));
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  char byte() {
    constexpr char often[] = {0, 1, 2, 8, '0', '9', '[', '"', 0x7f, static_cast<char>(0x80), static_cast<char>(0xff)};
    return below(2) != 0 ? often[below(std::size(often))] : static_cast<char>(below(256));
  }
  void mutate(std::string& bytes, const std::vector<std::string>& seeds) {
    if (bytes.empty()) return;
    // Heads and tables are short, and stand at the begin or, in zip files, at the end.
    std::size_t at = below(bytes.size());
    if (const std::size_t part = below(3); part != 0) {
      const std::size_t near = below(std::min<std::size_t>(bytes.size(), 512));
      at = part == 1 ? near : bytes.size() - 1 - near;
    }
    const std::size_t size = std::min(bytes.size() - at, 1 + below(below(2) != 0 ? 4 : 64));
    switch (below(8)) {
      case 0: bytes.erase(at, size); break;
      case 1: bytes.insert(at, bytes.substr(below(bytes.size()), size)); break;
      case 2: {
        const std::string& other = seeds[below(seeds.size())];
        if (!other.empty()) bytes.replace(at, size, other.substr(below(other.size()), size));
        break;
      }
      case 3: bytes[at] = static_cast<char>(bytes[at] + (below(2) != 0 ? 1 : -1)); break;
      case 4: bytes.replace(at, size, std::string(size, byte())); break;
      default: bytes[at] = byte(); break;
    }
  }
  std::mt19937_64 random_;
};

/// Reads each byte of a value.
std::uint64_t read_all(const Tensor& value) {
  const Ref<TensorImpl> dense = dense_value(In(value), "fuzz");
  const auto* const first = static_cast<const unsigned char*>(dense->data());
  std::uint64_t sum = 0;
  const std::int64_t bytes = dense->type.shape.numel().value() * size_of(dense->type.dtype);
  for (std::int64_t i = 0; i < bytes; ++i) sum += first[i];
  return sum;
}
std::uint64_t read_all(const io::TensorMap& values) {
  std::uint64_t sum = 0;
  for (const auto& entry : values) sum += read_all(entry.second);
  return sum;
}

template <class Load>
void fuzz_files(const char* format, const std::vector<std::string>& seeds, const Load& load) {
  const Folder folder;
  const std::string path = folder / "mutant";
  REQUIRE_FALSE(seeds.empty());
  std::uint64_t whole = 0, sum = 0;
  for (const std::string& seed : seeds) {
    REQUIRE_FALSE(seed.empty());
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(seed.data(), static_cast<std::streamsize>(seed.size()));
    sum += load(path);
  }
  const std::uint64_t cases = fuzz_loop(1, [&](std::uint64_t seed) {
    const std::string bytes = Mutator(seed).file(seeds);
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    try {
      sum += load(path);
      ++whole;
    } catch (const InternalError& error) {
      FAIL(format << ", seed " << seed << ": " << error.what());
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    } catch (const std::exception& error) { FAIL(format << ", seed " << seed << ": " << error.what()); }
  });
  std::printf("%s: %llu cases, %llu of them were read (%llu)\n", format, static_cast<unsigned long long>(cases),
              static_cast<unsigned long long>(whole), static_cast<unsigned long long>(sum % 10));
}

std::vector<std::string> stored_files(std::string_view ending) {
  std::vector<std::string> files, names;
  for (const auto& entry : std::filesystem::directory_iterator(stored))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names)
    if (name.ends_with(ending) && name.find("calls") == std::string::npos &&
        name.find("compressed") == std::string::npos)
      files.push_back(read_file(stored + name));
  return files;
}

}  // namespace

TEST_CASE("fuzz: safetensors") {
  fuzz_files("safetensors", stored_files(".safetensors"),
             [](const std::string& path) { return read_all(io::load_safetensors(path)); });
}
TEST_CASE("fuzz: npy") {
  fuzz_files("npy", stored_files(".npy"), [](const std::string& path) { return read_all(io::load_npy(path)); });
}
TEST_CASE("fuzz: npz") {
  fuzz_files("npz", stored_files(".npz"), [](const std::string& path) { return read_all(io::load_npz(path)); });
}
TEST_CASE("fuzz: files of PyTorch") {
  fuzz_files("PyTorch", stored_files(".pt"), [](const std::string& path) { return read_all(io::load_pytorch(path)); });
}
TEST_CASE("fuzz: GGUF") {
  fuzz_files("GGUF", stored_files(".gguf"),
             [](const std::string& path) { return read_all(io::load_gguf(path).tensors); });
}

TEST_CASE("fuzz: ONNX") {
  const Folder folder;
  const Tensor w = randn({4, 3});
  const Variable v(randn({3}), "v");
  std::vector<std::string> seeds;
  const auto add = [&](auto function, const Tensor& x) {
    jit::export_onnx(function, folder / "seed", x);
    seeds.push_back(read_file(folder / "seed"));
  };
  add([&](const Tensor& x) { return softmax(tanh(matmul(x, w) + v), 1); }, randn({2, 4}));
  add([](const Tensor& x) { return concat({x, x * 2}, 0).reshape({-1}); }, randn({2, 4}));
  add([](const Tensor& x) { return sum(where(x > 0, x, exp(x)), 1); }, randn({3, 4}));
  Tensor rows = randn({5, 4});
  jit::mark_dynamic(rows, 0);
  add([](const Tensor& x) { return x.reshape({x.size(0) * 2, 2}); }, rows);
  // A model is read and described, not run: what a stranger's computes may be as large as it likes.
  fuzz_files("ONNX", seeds,
             [](const std::string& path) { return static_cast<std::uint64_t>(io::load_onnx(path).text().size()); });
}
