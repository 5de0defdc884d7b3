// Machine code as the code cache holds it: the bytes, with the few numbers that their owner needs besides. What this
// back end generates is position independent, holds no address and calls nothing, so that a copy runs in any process of
// the same build on a processor with the same instruction set. Knows bytes; no kernels.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/runtime/program_code.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Code that was found.
class StoredCode {
 public:
  explicit StoredCode(runtime_detail::FoundCode found) : found_(std::move(found)) {
    std::memcpy(&numbers_, found_.value().data(), sizeof numbers_);
  }
  std::uint64_t number(std::size_t i) const {
    std::uint64_t number = 0;
    std::memcpy(&number, found_.value().data() + (i + 1) * sizeof number, sizeof number);
    return number;
  }
  std::size_t numbers() const { return as_index(numbers_); }
  std::span<const std::byte> code() const {
    const std::string_view code = found_.value().substr((as_index(numbers_) + 1) * sizeof numbers_);
    return {reinterpret_cast<const std::byte*>(code.data()), code.size()};
  }

 private:
  runtime_detail::FoundCode found_;
  std::uint64_t numbers_ = 0;
};

/// The code of a key, with as many numbers.
inline std::optional<StoredCode> find_stored_code(std::string_view key, std::size_t numbers) {
  std::optional<runtime_detail::FoundCode> found = runtime_detail::find_program_code(key);
  if (!found || found->value().size() < (numbers + 1) * sizeof(std::uint64_t)) return {};
  StoredCode stored(std::move(*found));
  if (stored.numbers() != numbers) return {};
  return stored;
}

/// To be called for each piece of code that was generated.
inline void store_code(std::string_view key, std::initializer_list<std::uint64_t> numbers,
                       std::span<const std::byte> code) {
  std::string value;
  value.reserve((numbers.size() + 1) * sizeof(std::uint64_t) + code.size());
  const auto put = [&](std::uint64_t number) { value.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(numbers.size());
  for (const std::uint64_t number : numbers) put(number);
  value.append(reinterpret_cast<const char*>(code.data()), code.size());
  runtime_detail::keep_program_code(key, value);
}

/// Functions that are published together. Each begins at a multiple of 64, as it did where it was generated.
class CodeBatch {
 public:
  std::size_t append(std::span<const std::byte> function) {
    bytes_.resize((bytes_.size() + 63) / 64 * 64, std::byte{0xCC});
    const std::size_t at = bytes_.size();
    bytes_.insert(bytes_.end(), function.begin(), function.end());
    return at;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace x86
SINTER_NAMESPACE_END
