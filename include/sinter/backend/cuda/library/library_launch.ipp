// Streams, scratch memory and errors of library calls.
#pragma once

#include <sinter/backend/cuda/library/library_launch.hpp>

#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

SINTER_DECL std::shared_ptr<const Module> module_of(Gpu& gpu, const LibrarySource& source) {
  return Modules::of(gpu).get(gpu, source.text, source.entries);
}

SINTER_DECL LibraryLaunch::LibraryLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
    : gpu_(gpu), label_(label_of(step)), where_(op.where) {}

SINTER_DECL void LibraryLaunch::run(void* const* operands) {
  gpu_.enter();
  stream_ = &gpu_.stream();
  gpu_.note_launch(label_);
  struct Release {
    LibraryLaunch& launch;
    ~Release() { launch.release(); }
  } const at_end{*this};
  enqueue(operands);
  if (SINTER_UNLIKELY(Context::get().checks)) gpu_.check(api().call_cuStreamSynchronize(stream()), label_.text());
}

SINTER_DECL void LibraryLaunch::release() noexcept {
  workspace_ = {};
  failure_ = {};
}

SINTER_DECL char* LibraryLaunch::workspace(std::size_t bytes) {
  if (!workspace_ || workspace_->bytes() < bytes)
    workspace_ = Storage::allocate(std::max<std::size_t>(bytes, 256), device());
  return static_cast<char*>(workspace_->data());
}

SINTER_DECL void LibraryLaunch::require(int status, std::string_view what) const {
  if (SINTER_LIKELY(status == 0)) return;
  throw DeviceError(
      label_.text(),
      std::string(what) + " failed with status " + std::to_string(status) + " on cuda:" + std::to_string(gpu_.index()),
      where_);
}

SINTER_DECL void LibraryLaunch::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  gpu_.check(api().call_cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                                          stream()),
             "a copy for " + label_.text());
}
SINTER_DECL void LibraryLaunch::fill(void* to, unsigned char value, std::size_t bytes) {
  if (bytes == 0) return;
  gpu_.check(api().call_cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(to), value, bytes, stream()),
             "a fill for " + label_.text());
}

SINTER_DECL void LibraryLaunch::launch_kernel(const Module& module, std::size_t entry, std::int64_t blocks, int threads,
                                              void** parameters) {
  const auto most = static_cast<std::int64_t>(gpu_.target().multiprocessors) * 64;
  launch_grid(module, entry, std::min(blocks, most), threads, 0, parameters);
}
SINTER_DECL void LibraryLaunch::launch_grid(const Module& module, std::size_t entry, std::int64_t blocks, int threads,
                                            std::size_t shared_bytes, void** parameters) {
  if (blocks <= 0) return;
  gpu_.check(api().call_cuLaunchKernel(module.function(entry), static_cast<unsigned>(blocks), 1, 1,
                                       static_cast<unsigned>(threads), 1, 1, static_cast<unsigned>(shared_bytes),
                                       stream(), parameters, nullptr),
             "launching a kernel of " + label_.text());
}

SINTER_DECL std::uint64_t* LibraryLaunch::failure_place() {
  if (!failure_) failure_ = Storage::allocate(sizeof(std::uint64_t), device());
  fill(failure_->data(), 0xff, sizeof(std::uint64_t));
  return static_cast<std::uint64_t*>(failure_->data());
}
SINTER_DECL LibraryLaunch::Failure LibraryLaunch::read_failure() {
  std::uint64_t found = 0;
  memory().copy(&found, Device::cpu(), failure_->data(), device(), sizeof found);
  if (SINTER_LIKELY(found == ~std::uint64_t{0})) return {};
  return {static_cast<std::int64_t>(found >> 32), static_cast<std::int32_t>(found & 0xffffffffU)};
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
