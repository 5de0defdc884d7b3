// Attention and rotary positions.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// Which keys a query sees in causal attention. `true` is for as many queries as keys: query i sees keys up to i.
/// Otherwise say how they are aligned: from_start, also up to key i, or to_end, so that the last query sees all keys,
/// as with a cache of keys.
class Causal {
 public:
  enum Alignment : std::uint8_t { no, equal_lengths, from_start, to_end };
  constexpr Causal(Alignment alignment) : alignment_(alignment) {}
  constexpr Causal(bool is_causal) : alignment_(is_causal ? equal_lengths : no) {}
  constexpr Alignment alignment() const { return alignment_; }

 private:
  Alignment alignment_;
};
/// Whether there may be fewer heads of keys and values than of queries; then each serves as many queries' heads.
enum class Heads : bool { equal, grouped };
struct AttentionOptions {
  Causal causal = false;
  Optional<Tensor> mask = {};   // broadcasts to [batch..., l, s]. bool: true is seen. Of q's dtype: added to the scores
  Optional<double> scale = {};  // of the scores; none: 1 / sqrt(d)
  double dropout = 0;           // probability with which a weight is dropped, for training
  Heads heads = Heads::equal;   // grouped: k and v [..., heads / n, s, d]
};
/// softmax(q k^T * scale) v; q [batch..., l, d], k [batch..., s, d], v [batch..., s, f]. A query that sees no key
/// gets zeros. Keys that a query does not see have no weight, 0, in its row; whether a NaN or an infinity among the
/// hidden rows of v then gives NaN (as 0 * v does) or is passed over depends on the kernel: keep what is hidden finite.
Tensor scaled_dot_product_attention(const In& q, const In& k, const In& v, AttentionOptions options = {});

/// Which elements make a pair: i and i + features / 2, or 2 i and 2 i + 1.
enum class RotaryLayout : std::uint8_t { halves, interleaved };
struct RotaryOptions {
  RotaryLayout layout = RotaryLayout::halves;
  std::int64_t features = 0;  // so many of the last axis are turned, the others kept; 0: all
  double base = 10000;
  double scale = 1;                 // of positions
  Scalar offset = 0;                // of the first position
  Optional<Tensor> positions = {};  // (l) or what broadcasts to x without its last axis; else 0, 1, 2, ...
};
/// Turns pair i at position p of x [..., l, d] by the angle p * base^(-2 i / features). Su et al. 2021.
Tensor rotary_embedding(const In& x, RotaryOptions options = {});

SINTER_NAMESPACE_END
