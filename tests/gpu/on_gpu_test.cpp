// What makes this program run on the GPU: tensors that name no device are made there. Where there is none, each test
// says so and checks nothing.
// Listeners need more of Catch2 than tests do: this file is built without the precompiled header.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <iostream>

namespace {
struct OnGpu : Catch::TestEventListenerBase {
  using Catch::TestEventListenerBase::TestEventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    if (sinter::cuda::is_available()) sinter::set_default_device(sinter::Device::cuda(0));
  }
  void testCaseStarting(const Catch::TestCaseInfo&) override {
    if (!sinter::cuda::is_available())
      std::cout << "SINTER_SKIPPED: no GPU: " << sinter::cuda::why_unavailable() << std::endl;
  }
};
CATCH_REGISTER_LISTENER(OnGpu)
}  // namespace

TEST_CASE("without a GPU nothing claims that there is one") {
  if (sinter::cuda::is_available()) {
    CHECK(sinter::cuda::device_count() > 0);
    CHECK(sinter::cuda::why_unavailable().empty());
    CHECK(sinter::default_device() == sinter::Device::cuda(0));
    return;
  }
  CHECK(sinter::cuda::device_count() == 0);
  CHECK_FALSE(sinter::cuda::why_unavailable().empty());
  CHECK_THROWS_AS(sinter::cuda::Stream(), sinter::DeviceError);
  CHECK_THROWS_AS(sinter::cuda::Event(), sinter::DeviceError);
  CHECK_THROWS_AS(sinter::cuda::synchronize(), sinter::DeviceError);
}
