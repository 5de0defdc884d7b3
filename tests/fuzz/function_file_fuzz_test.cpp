// Fuzzing of files of functions: bytes of the program are changed, cut out, doubled and taken from other files, and the
// checksums repaired, so that the reader sees them. It gives functions, which are run, or throws an Error; under the
// sanitizers nothing is read that is not there.
#include "../catch.hpp"
#include "fuzz_loop.hpp"

#include <sinter/sinter.hpp>

#include <sinter/io/function_bytes.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::size_t head_size = io::io_detail::function_head;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::uint64_t sum_of(std::string_view bytes) {
  return io::io_detail::checksum(std::as_bytes(std::span(bytes.data(), bytes.size())));
}
void put_word(std::string& file, std::size_t word, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) file[8 * word + i] = static_cast<char>(value >> (8 * i));
}
std::uint64_t get_word(const std::string& file, std::size_t word) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(file[8 * word + i]);
  return value;
}

/// A file in its parts.
struct Parts {
  std::string head, program, weights;
  std::string whole() const {
    std::string file = head + program;
    const std::size_t begin = (file.size() + 63) / 64 * 64;
    put_word(file, 2, program.size());
    put_word(file, 3, sum_of(program));
    put_word(file, 4, begin);
    put_word(file, 5, weights.size());
    put_word(file, 7, sum_of(std::string_view(file).substr(0, 56)));
    file.resize(begin);
    return file + weights;
  }
};

struct Seeds {
  std::string folder = (std::filesystem::temp_directory_path() / "sinter_fuzz_XXXXXX").string();
  std::vector<Parts> files;
  Seeds() {
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder");
    const Tensor w = randn({4, 4}), empty = zeros({0, 4});
    const Variable v(randn({4}), "v"), count(zeros({}), "count");
    v.requires_grad();
    auto step = jit::compile([&](const Tensor& x, Scalar rate) {
      Tensor loss = sum(square(matmul(x, w) * v)) + sum(randn({3}));
      v.zero_grad();
      loss.backward();
      v -= rate * v.grad();
      jit::print("loss {} of {}", loss, x.size(0));
      return std::vector<Tensor>{loss, concat({x, empty}, 0).reshape({x.size(0) * 2, 2})};
    });
    for (const int n : {2, 3, 5}) step(randn({n, 4}), 0.1f);
    add([&](const std::string& path) { jit::save(step, path); });
    auto branches = jit::compile([&](const Tensor& x, int times) -> Tensor {
      Tensor y = x;
      for (int i = 0; i < times; ++i) y = tanh(matmul(y, w));
      count += 1.f;
      if (item(sum(y)) > 0.f) return softmax(y, 1) + count;
      return y(slice(0, 1)) * 2.f;
    });
    branches(ones({2, 4}), 2);
    branches(-ones({2, 4}), 2);
    branches(ones({2, 4}), 1);
    auto loops = jit::compile([&](const Tensor& x) {
      const Tensor y = jit::fori_loop(0, 3, [](const Scalar& i, const Tensor& c) { return c * 0.5f + i; }, x);
      return jit::cond(sum(y) > 1.f, [&] { return y + 1.f; }, [&] { return y * 2.f; });
    });
    for (const int n : {2, 3}) loops(randn({n, 4}));
    add([&](const std::string& path) { jit::save({{"branches", branches}, {"loops", loops}}, path); });
    const Tensor index = cast(tensor({0.f, 2.f, 1.f, 0.f}), DType::i64), m = randn({4, 4});
    for (const jit::Dynamic dynamic : {jit::Dynamic::always, jit::Dynamic::never}) {
      const auto one = [&](auto function) {
        auto compiled = jit::compile(function, {.dynamic = dynamic});
        for (const int n : {4, 5}) compiled(randn({n, 4}));
        add([&](const std::string& path) { jit::save(compiled, path); });
      };
      one([&](const Tensor& x) { return take(x, index, 1) + cumsum(x, 1) + flip(x, {1}); });
      one([&](const Tensor& x) { return pad(x, {{1, 2}, {0, 1}})(slice(1, 3))(all, slice(0, 4)) + sum(x, 0); });
      one([&](const Tensor& x) { return matmul(transpose(x, 0, 1), x) + m; });
      one([&](const Tensor& x) {
        Tensor y = x * 2.f;
        y.at(slice(1, 3)) = m(slice(0, 2));
        return y;
      });
    }
  }
  Seeds(const Seeds&) = delete;
  Seeds& operator=(const Seeds&) = delete;
  ~Seeds() { std::filesystem::remove_all(folder); }

 private:
  template <class Save>
  void add(const Save& save) {
    const std::string path = folder + "/seed";
    save(path);
    const std::string file = read_file(path);
    const std::size_t begin = get_word(file, 4);
    files.push_back({file.substr(0, head_size), file.substr(head_size, get_word(file, 2)), file.substr(begin)});
  }
};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string file(const std::vector<Parts>& seeds) {
    Parts parts = seeds[below(seeds.size())];
    for (std::size_t left = 1 + below(1 + below(8)); left > 0; --left) mutate(parts.program, seeds);
    if (below(16) == 0 && !parts.weights.empty()) parts.weights.resize(below(parts.weights.size()));
    std::string file = parts.whole();
    switch (below(32)) {
      case 0: file.resize(below(file.size())); break;
      case 1: file[below(head_size)] = byte(); break;
      case 2:
        put_word(file, 2 + below(4), random_() >> below(64));
        put_word(file, 7, sum_of(std::string_view(file).substr(0, 56)));
        break;
      default: break;
    }
    return file;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  char byte() {
    constexpr char often[] = {0, 1, 2, 3, 8, 9, 0x7f, static_cast<char>(0x80), static_cast<char>(0xff)};
    return below(2) != 0 ? often[below(std::size(often))] : static_cast<char>(below(256));
  }
  void mutate(std::string& bytes, const std::vector<Parts>& seeds) {
    if (bytes.empty()) return;
    const std::size_t at = below(bytes.size());
    const std::size_t size = std::min(bytes.size() - at, 1 + below(below(2) != 0 ? 4 : 64));
    switch (below(8)) {
      case 0: bytes.erase(at, size); break;
      case 1: bytes.insert(at, bytes.substr(below(bytes.size()), size)); break;
      case 2: {
        const std::string& other = seeds[below(seeds.size())].program;
        bytes.replace(at, size, other.substr(below(other.size()), size));
        break;
      }
      case 3: bytes[at] = static_cast<char>(bytes[at] + (below(2) != 0 ? 1 : -1)); break;
      case 4: bytes.insert(at, 1, byte()); break;
      default: bytes[at] = byte(); break;
    }
  }
  std::mt19937_64 random_;
};

}  // namespace

/// Runs a function of the file on a few rows; types that fit no signature here are an Error.
template <class Signature, class... Args>
bool runs(const jit::FunctionFile& file, const std::string& name, const Args&... args) {
  try {
    auto function = file.load<Signature>(name);
    for (const int rows : {4, 5}) eval(function(randn({rows, 4}), args...));
    return true;
  } catch (const InternalError&) { throw; } catch (const Error&) {
  } catch (const std::bad_alloc&) {}
  return false;
}

TEST_CASE("fuzz: files of functions") {
  const jit::PrintSink sink = jit::set_print_sink([](std::string_view) {});
  const Seeds seeds;
  const std::string path = seeds.folder + "/mutant";
  std::uint64_t whole = 0, ran = 0;
  const std::uint64_t cases = fuzz_loop(1, [&](std::uint64_t seed) {
    const std::string bytes = Mutator(seed).file(seeds.files);
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    try {
      const jit::FunctionFile file(path, {.check_weights = false});
      static_cast<void>(file.text());
      ++whole;
      const std::string text = file.text();
      if (text.find("while_loop") != std::string::npos || text.find("scan") != std::string::npos)
        return;  // may not end
      for (const std::string& name : file.names())
        ran += runs<Tensor(Tensor)>(file, name) || runs<Tensor(Tensor, int)>(file, name, 2);
    } catch (const InternalError& error) { FAIL("seed " << seed << ": " << error.what()); } catch (const Error&) {
    } catch (const std::exception& error) { FAIL("seed " << seed << ": " << error.what()); }
  });
  jit::set_print_sink(sink);
  std::printf("files of functions: %llu cases, %llu of them were functions, %llu ran\n",
              static_cast<unsigned long long>(cases), static_cast<unsigned long long>(whole),
              static_cast<unsigned long long>(ran));
  CHECK(whole > 0);
}
