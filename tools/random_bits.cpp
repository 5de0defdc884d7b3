// The bits that every random number of Sinter is made of, on standard output without an end: for batteries of
// statistical tests, which read them from a pipe. docs/numerics.md says with what it was run.
//   random_bits [seed] | dieharder -g 200 -a
#include <sinter/expr/recording.hpp>
#include <sinter/ops/random.hpp>
#include <sinter/sinter.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace sinter;

int main(int count, char** words) {
  constexpr std::int64_t at_once = 1 << 20;
  const std::int64_t seed = count > 1 ? std::atoll(words[1]) : 0;
  const auto draw = jit::compile([](Tensor key, Tensor counter) {
    SharedAttrs attributes;
    attributes.edit().shape = Shape{at_once};
    attributes.edit().device = Device::cpu();
    return Tensor(
        expr_detail::record<ops::RandomBits>({Leaf(key.impl()), Leaf(counter.impl())}, std::move(attributes), {}));
  });
  const auto number = [](std::int64_t value) { return copy_of(std::vector<std::int64_t>{value}, {}); };
  std::vector<std::uint32_t> bits(at_once);
  for (std::int64_t counter = 0;; ++counter) {
    const std::vector<std::int64_t> drawn = to_vector<std::int64_t>(draw(number(seed), number(counter)));
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint32_t>(drawn[i]);
    if (std::fwrite(bits.data(), sizeof(bits[0]), bits.size(), stdout) != bits.size())
      return 0;  // the reader has ended
  }
}
