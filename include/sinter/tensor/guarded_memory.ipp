// Blocks between two inaccessible pages, and the variable that asks for them.
#pragma once

#include <sinter/tensor/guarded_memory.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {

inline GuardPages guard_pages_of_environment() {
  const char* text = std::getenv("SINTER_GUARD_PAGES");
  const std::string value = text != nullptr ? text : "";
  if (value.empty() || value == "0") return GuardPages::none;
  if (value == "end") return GuardPages::at_end;
  if (value == "start") return GuardPages::at_start;
  throw UserError("SINTER_GUARD_PAGES", "'" + value + "' is neither start nor end");
}
SINTER_DECL GuardPages guard_pages() {
  static const GuardPages guards = guard_pages_of_environment();
  return guards;
}

inline std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}
/// The whole pages that a block takes; one more lies on either side.
inline std::size_t inner_bytes(std::size_t bytes) noexcept {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

SINTER_DECL void* guarded_block(std::size_t bytes, GuardPages guards) {
  const std::size_t page = page_bytes(), inner = inner_bytes(bytes);
  void* const map = mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  char* const first = static_cast<char*>(map) + page;
  if (inner > 0 && mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(map, inner + 2 * page);
    return nullptr;
  }
  char* const data = guards == GuardPages::at_end ? first + (inner - bytes) : first;
  std::memset(data, 0xFF, bytes);
  return data;
}

SINTER_DECL void free_guarded_block(void* data, std::size_t bytes, GuardPages guards) noexcept {
  const std::size_t page = page_bytes(), inner = inner_bytes(bytes);
  char* const first = static_cast<char*>(data) - (guards == GuardPages::at_end ? inner - bytes : 0);
  munmap(first - page, inner + 2 * page);
}

SINTER_DECL std::int64_t place_guarded_pieces(std::span<const std::int64_t> bytes, GuardPages guards,
                                              std::vector<std::int64_t>& offsets) {
  const auto page = static_cast<std::int64_t>(page_bytes());
  std::int64_t at = 0;
  offsets.clear();
  for (const std::int64_t size : bytes) {
    const auto inner = static_cast<std::int64_t>(inner_bytes(as_index(size)));
    offsets.push_back(at + (guards == GuardPages::at_end ? inner - size : 0));
    at += inner + page;
  }
  return at;  // ends with a page of no piece, so it is a whole number of pages
}

SINTER_DECL void guard_pieces(void* block, std::span<const std::int64_t> bytes) noexcept {
  char* at = static_cast<char*>(block);
  for (const std::int64_t size : bytes) {
    at += inner_bytes(as_index(size));
    mprotect(at, page_bytes(), PROT_NONE);
    at += page_bytes();
  }
}

}  // namespace tensor_detail

SINTER_NAMESPACE_END
