// A block of GPT-2's size in bf16 is near that in f32, on a GPU.
#include "transformer_block.hpp"

TEST_CASE("a transformer block in bf16 on a GPU is within a hundredth of that in f32", "[gpu]") {
  if (!sinter::cuda::is_available()) SINTER_SKIP("there is no GPU");
  sinter_test::check_block_in_bf16(sinter::Device::cuda(0));
}
