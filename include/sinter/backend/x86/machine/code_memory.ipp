// Page allocator for code, the perf map, and GDB's JIT interface. Address space is reserved in arenas without access
// rights; a block gets a run of whole pages out of one, which saves a mapping per block and lets the kernel merge
// neighbours. Pages become writable several at a time, ahead of the blocks that will lie in them. Sealing is per block:
// a sealed page is never written again.
#pragma once

#include <sinter/backend/x86/machine/code_memory.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

// The interface that GDB looks for, by name (GDB manual, "JIT Compilation Interface"). Other JIT compilers in the
// process define the same names with the same layout; inline definitions are weak, so one list serves them all.
extern "C" {
struct SinterJitEntry {
  SinterJitEntry* next;
  SinterJitEntry* previous;
  const char* symbol_file;
  std::uint64_t symbol_file_size;
};
struct SinterJitDescriptor {
  std::uint32_t version;
  std::uint32_t action;  // 0 nothing, 1 registered, 2 unregistered
  SinterJitEntry* relevant;
  SinterJitEntry* first;
};
__attribute__((noinline, used)) inline void __jit_debug_register_code() { asm volatile("" ::: "memory"); }
__attribute__((used)) inline SinterJitDescriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
}

namespace x86 {
namespace x86_code_detail {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t arena_pages = 4096;  // 16 MiB of address space

/// Pages that are made writable together: 64 KiB.
inline constexpr std::size_t batch_pages = 16;

struct PageRun {
  std::byte* start = nullptr;
  std::size_t pages = 0;
};

struct CodeMemory {
  ForkSafeMutex mutex;
  PageRun ready;                                // writable pages with memory behind them that no block has yet
  std::map<std::byte*, std::size_t> free_runs;  // start -> pages; no access rights, no memory behind them
  CodeMemoryStats stats;
};

/// Created on first use, never destroyed: code may be freed during static destruction.
inline CodeMemory& code_memory() { return process_object<CodeMemory>(); }

/// Takes a run of at least `pages` (smallest address that fits) and at most `wanted`, mapping another arena when none
/// does. Needs the lock.
inline PageRun take_pages(CodeMemory& memory, std::size_t pages, std::size_t wanted) {
  auto run =
      std::find_if(memory.free_runs.begin(), memory.free_runs.end(), [&](const auto& r) { return r.second >= pages; });
  if (run == memory.free_runs.end()) {
    std::size_t mapped = std::max(pages, arena_pages);
    void* arena = mmap(nullptr, mapped * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) throw OutOfMemory("code memory", mapped * page_bytes, std::strerror(errno));
    run = memory.free_runs.emplace(static_cast<std::byte*>(arena), mapped).first;
  }
  auto [start, length] = *run;
  const std::size_t taken = std::min(length, wanted);
  memory.free_runs.erase(run);
  if (length > taken) memory.free_runs.emplace(start + taken * page_bytes, length - taken);
  return {start, taken};
}

/// Gives pages back to the system and joins the run with its neighbours. Needs the lock.
inline void return_pages(CodeMemory& memory, std::byte* start, std::size_t pages) noexcept {
  mprotect(start, pages * page_bytes, PROT_NONE);
  madvise(start, pages * page_bytes, MADV_DONTNEED);
  try {
    auto next = memory.free_runs.lower_bound(start);
    if (next != memory.free_runs.end() && start + pages * page_bytes == next->first) {
      pages += next->second;
      next = memory.free_runs.erase(next);
    }
    if (next != memory.free_runs.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second * page_bytes == start) {
        previous->second += pages;
        return;
      }
    }
    memory.free_runs.emplace(start, pages);
  } catch (const std::bad_alloc&) {  // address space is lost, memory is not
  }
}

/// Takes a run of writable pages. Small ones come out of a batch. Needs the lock.
inline std::byte* take_writable_pages(CodeMemory& memory, std::size_t pages) {
  if (memory.ready.pages < pages) {
    const PageRun run = take_pages(memory, pages, std::max(pages, batch_pages));
    const std::size_t bytes = run.pages * page_bytes;
    if (mprotect(run.start, bytes, PROT_READ | PROT_WRITE) != 0) {
      int error = errno;
      return_pages(memory, run.start, run.pages);
      throw OutOfMemory("code memory", bytes, std::strerror(error));
    }
#ifdef MADV_POPULATE_WRITE
    madvise(run.start, bytes,
            MADV_POPULATE_WRITE);  // all page faults in one call; older kernels refuse, and do without
#endif
    if (run.pages == pages) return run.start;
    if (memory.ready.pages != 0) return_pages(memory, memory.ready.start, memory.ready.pages);
    memory.ready = run;
  }
  std::byte* start = memory.ready.start;
  memory.ready.start += pages * page_bytes;
  memory.ready.pages -= pages;
  return start;
}

inline bool is_switched_on(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

/// One line "start size name" in /tmp/perf-PID.map (Linux tools/perf/Documentation/jit-interface.txt).
inline void append_perf_map(const std::byte* data, std::size_t size, const std::string& name) {
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "%llx %zx sinter:%s\n", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(data)),
                 size, name.c_str());
    std::fclose(file);
  }
}

/// The least ELF file that names one function at a fixed address: .text without contents, a symbol table, its strings.
inline std::vector<char> symbol_file(const std::byte* data, std::size_t size, const std::string& name) {
  struct Image {
    Elf64_Ehdr header;
    Elf64_Shdr sections[4];  // null, .text, .symtab, .strtab
    Elf64_Sym symbols[2];
  } image{};
  std::string strings = std::string("\0.text\0.symtab\0.strtab\0", 23) + "sinter:" + name + '\0';
  constexpr std::uint32_t text_name = 1, symtab_name = 7, strtab_name = 15, function_name = 23;
  auto address = reinterpret_cast<std::uint64_t>(data);
  std::memcpy(image.header.e_ident, ELFMAG, SELFMAG);
  image.header.e_ident[EI_CLASS] = ELFCLASS64;
  image.header.e_ident[EI_DATA] = ELFDATA2LSB;
  image.header.e_ident[EI_VERSION] = EV_CURRENT;
  image.header.e_type = ET_REL;
  image.header.e_machine = EM_X86_64;
  image.header.e_version = EV_CURRENT;
  image.header.e_shoff = offsetof(Image, sections);
  image.header.e_ehsize = sizeof(Elf64_Ehdr);
  image.header.e_shentsize = sizeof(Elf64_Shdr);
  image.header.e_shnum = 4;
  image.header.e_shstrndx = 3;
  image.sections[1] = {text_name, SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, address, 0, size, 0, 0, 16, 0};
  image.sections[2] = {symtab_name,          SHT_SYMTAB, 0, 0, offsetof(Image, symbols),
                       sizeof image.symbols, 3,          1, 8, sizeof(Elf64_Sym)};
  image.sections[3] = {strtab_name, SHT_STRTAB, 0, 0, sizeof(Image), strings.size(), 0, 0, 1, 0};
  image.symbols[1] = {function_name, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), STV_DEFAULT, 1, 0, size};
  std::vector<char> file(sizeof image + strings.size());
  std::memcpy(file.data(), &image, sizeof image);
  std::memcpy(file.data() + sizeof image, strings.data(), strings.size());
  return file;
}

struct DebugRecord {
  SinterJitEntry entry{};
  std::vector<char> file;
};

/// Links the record into GDB's list and stops at the place where GDB has its breakpoint. Needs the lock.
inline DebugRecord* register_with_gdb(const std::byte* data, std::size_t size, const std::string& name) {
  auto record = std::make_unique<DebugRecord>();
  record->file = symbol_file(data, size, name);
  record->entry = {__jit_debug_descriptor.first, nullptr, record->file.data(), record->file.size()};
  if (record->entry.next != nullptr) record->entry.next->previous = &record->entry;
  __jit_debug_descriptor.first = &record->entry;
  __jit_debug_descriptor.relevant = &record->entry;
  __jit_debug_descriptor.action = 1;
  __jit_debug_register_code();
  return record.release();
}

inline void unregister_from_gdb(DebugRecord* record) noexcept {
  SinterJitEntry& entry = record->entry;
  if (entry.previous != nullptr) entry.previous->next = entry.next;
  else __jit_debug_descriptor.first = entry.next;
  if (entry.next != nullptr) entry.next->previous = entry.previous;
  __jit_debug_descriptor.relevant = &entry;
  __jit_debug_descriptor.action = 2;
  __jit_debug_register_code();
  delete record;
}

}  // namespace x86_code_detail

SINTER_DECL CodeBlock::~CodeBlock() {
  using namespace x86_code_detail;
  if (data_ == nullptr) return;
  CodeMemory& memory = code_memory();
  std::lock_guard lock(memory.mutex);
  if (debug_entry_ != nullptr) unregister_from_gdb(static_cast<DebugRecord*>(debug_entry_));
  return_pages(memory, data_, pages_);
  memory.stats.live_bytes -= size_;
  memory.stats.live_blocks -= 1;
  memory.stats.committed_bytes -= pages_ * page_bytes;
}

SINTER_DECL std::shared_ptr<const CodeBlock> publish_code(std::span<const std::byte> code, std::string_view name) {
  using namespace x86_code_detail;
  ensure(!code.empty(), "publish_code: no code");
  std::shared_ptr<CodeBlock> block(new CodeBlock);
  block->name_ = name;
  CodeMemory& memory = code_memory();
  const std::size_t pages = (code.size() + page_bytes - 1) / page_bytes, bytes = pages * page_bytes;
  std::unique_lock lock(memory.mutex);
  // The lock stays to the end: a fork in between would leave the child with pages that nobody seals or frees.
  std::byte* start = take_writable_pages(memory, pages);
  std::memcpy(start, code.data(), code.size());
  std::memset(start + code.size(), 0xCC, bytes - code.size());  // int3: a jump past the end stops there
  if (mprotect(start, bytes, PROT_READ | PROT_EXEC) != 0) {
    int error = errno;
    return_pages(memory, start, pages);
    throw OutOfMemory("code memory", bytes, std::string("pages could not be made executable: ") + std::strerror(error));
  }
  block->data_ = start;
  block->size_ = code.size();
  block->pages_ = pages;
  memory.stats.live_bytes += code.size();
  memory.stats.peak_bytes = std::max(memory.stats.peak_bytes, memory.stats.live_bytes);
  memory.stats.live_blocks += 1;
  memory.stats.committed_bytes += bytes;
  if (is_switched_on("SINTER_GDB")) block->debug_entry_ = register_with_gdb(start, code.size(), block->name_);
  if (is_switched_on("SINTER_PERF")) append_perf_map(start, code.size(), block->name_);
  return block;
}

SINTER_DECL CodeMemoryStats code_memory_stats() {
  x86_code_detail::CodeMemory& memory = x86_code_detail::code_memory();
  std::lock_guard lock(memory.mutex);
  return memory.stats;
}

}  // namespace x86
SINTER_NAMESPACE_END
