// A block of GPT-2's size in bf16 is near that in f32.
#include "transformer_block.hpp"

TEST_CASE("dtypes: a transformer block in bf16 is within a hundredth of that in f32", "[bf16]") {
  sinter_test::check_block_in_bf16(sinter::Device::cpu());
}
