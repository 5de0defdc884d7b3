// Memory for machine code: private pages that are written first and then sealed read-execute; no page is ever writable
// and executable at once, and none is shared, so that a forked child cannot touch its parent's code. Publishes code to
// perf and GDB when asked by the environment. Knows bytes and names, nothing of what the code does.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Sealed machine code. The pages go back when the last owner goes.
class CodeBlock {
 public:
  CodeBlock(const CodeBlock&) = delete;
  CodeBlock& operator=(const CodeBlock&) = delete;
  ~CodeBlock();

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  const std::string& name() const { return name_; }
  /// The function that starts `offset` bytes into the code.
  template <class Function>
  Function entry(std::size_t offset = 0) const {
    return reinterpret_cast<Function>(reinterpret_cast<std::uintptr_t>(data_) + offset);
  }

 private:
  friend std::shared_ptr<const CodeBlock> publish_code(std::span<const std::byte> code, std::string_view name);
  CodeBlock() = default;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t pages_ = 0;
  void* debug_entry_ = nullptr;  // GDB's record, when registered
  std::string name_;
};

/// Copies position-independent `code` into fresh pages and seals them. `name` is what perf (SINTER_PERF=1) and GDB
/// (SINTER_GDB=1) show. Throws OutOfMemory when the system refuses pages, or refuses to make them executable.
std::shared_ptr<const CodeBlock> publish_code(std::span<const std::byte> code, std::string_view name);

struct CodeMemoryStats {
  std::size_t live_bytes = 0;  // code, as given
  std::size_t peak_bytes = 0;
  std::size_t live_blocks = 0;
  std::size_t committed_bytes = 0;  // pages that hold live code
};
CodeMemoryStats code_memory_stats();

}  // namespace x86
SINTER_NAMESPACE_END
