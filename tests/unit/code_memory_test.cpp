// Code memory: code runs, pages are never writable and executable, memory comes back, fork is harmless, GDB's list.
#include "../catch.hpp"

#include <sinter/backend/x86/machine/code_memory.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#ifdef SINTER_SEPARATE_COMPILATION  // the interface that GDB sees; header-only, the library's own declaration is here
extern "C" {
struct JitEntry {
  JitEntry *next, *previous;
  const char* symbol_file;
  std::uint64_t symbol_file_size;
};
struct JitDescriptor {
  std::uint32_t version, action;
  JitEntry *relevant, *first;
};
extern JitDescriptor __jit_debug_descriptor;
}
#endif

using namespace sinter;
using namespace sinter::x86;

namespace {
/// mov eax, value; ret
std::vector<std::byte> returns(std::uint32_t value, std::size_t padding = 0) {
  std::vector<std::byte> code{std::byte{0xB8}};
  for (int i = 0; i < 4; ++i) code.push_back(static_cast<std::byte>(value >> (8 * i)));
  code.push_back(std::byte{0xC3});
  code.resize(code.size() + padding, std::byte{0x90});
  return code;
}

std::uint32_t call(const CodeBlock& block) { return block.entry<std::uint32_t (*)()>()(); }

/// Access rights ("r-xp") of the mapping that holds `address`, or "" when there is none.
std::string rights_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long long begin = 0, end = 0;
    char rights[8] = {};
    if (std::sscanf(line.c_str(), "%llx-%llx %7s", &begin, &end, rights) != 3) continue;
    auto wanted = reinterpret_cast<unsigned long long>(address);
    if (begin <= wanted && wanted < end) return rights;
  }
  return {};
}
}  // namespace

TEST_CASE("code runs from sealed private pages", "[code_memory]") {
  auto block = publish_code(returns(42), "answer");
  CHECK(call(*block) == 42);
  CHECK(block->name() == "answer");
  CHECK(rights_of(block->data()) == "r-xp");
  std::ifstream maps("/proc/self/maps");
  std::stringstream text;
  text << maps.rdbuf();
  CHECK(text.str().find("rwx") == std::string::npos);
}

TEST_CASE("freed code gives its pages back", "[code_memory]") {
  CodeMemoryStats before = code_memory_stats();
  const std::byte* first = nullptr;
  {
    auto a = publish_code(returns(1), "a"), b = publish_code(returns(2, 10000), "b"), c = publish_code(returns(3), "c");
    first = a->data();
    CHECK(code_memory_stats().live_blocks == before.live_blocks + 3);
    CHECK(code_memory_stats().live_bytes == before.live_bytes + 10018);
    b.reset();
    auto d = publish_code(returns(4, 5000), "d");
    CHECK(call(*a) == 1);
    CHECK(call(*c) == 3);
    CHECK(call(*d) == 4);
  }
  CHECK(rights_of(first) == "---p");
  CodeMemoryStats after = code_memory_stats();
  CHECK(after.live_bytes == before.live_bytes);
  CHECK(after.live_blocks == before.live_blocks);
  CHECK(after.committed_bytes == before.committed_bytes);
  CHECK(after.peak_bytes >= before.live_bytes + 10018);
}

TEST_CASE("blocks of all sizes lie side by side, sealed", "[code_memory]") {
  std::vector<std::shared_ptr<const CodeBlock>> blocks;
  for (std::uint32_t i = 0; i < 60; ++i)  // more than a batch of pages that are made writable together
    blocks.push_back(publish_code(returns(100 + i, (i % 9) * 9000), "batch"));
  for (std::uint32_t i = 0; i < 60; ++i) CHECK(call(*blocks[i]) == 100 + i);
  for (const auto& block : blocks) {
    CHECK(rights_of(block->data()) == "r-xp");
    CHECK(rights_of(block->data() + block->size() - 1) == "r-xp");
  }
  std::ifstream maps("/proc/self/maps");
  std::stringstream text;
  text << maps.rdbuf();
  CHECK(text.str().find("rwx") == std::string::npos);
}

TEST_CASE("code larger than an arena", "[code_memory]") {
  auto block = publish_code(returns(5, 20u << 20), "large");
  CHECK(call(*block) == 5);
}

TEST_CASE("a forked child compiles and leaves its parent's code alone", "[code_memory]") {
  auto before = publish_code(returns(7), "before");
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool right = call(*before) == 7;
    before.reset();
    std::vector<std::shared_ptr<const CodeBlock>> blocks;
    for (std::uint32_t i = 0; i < 50; ++i) blocks.push_back(publish_code(returns(1000 + i), "child"));
    for (std::uint32_t i = 0; i < 50; ++i) right = right && call(*blocks[i]) == 1000 + i;
    _exit(right ? 0 : 1);
  }
  auto during = publish_code(returns(8), "during");
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(call(*before) == 7);
  CHECK(call(*during) == 8);
}

TEST_CASE("several threads publish and free", "[code_memory]") {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 100; ++i)
        wrong[t] += call(*publish_code(returns(t * 1000 + i, i * 100), "threaded")) != t * 1000 + i;
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("perf map lines", "[code_memory]") {
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  setenv("SINTER_PERF", "1", 1);
  auto block = publish_code(returns(9), "perf_name");
  unsetenv("SINTER_PERF");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str().find("6 sinter:perf_name\n") != std::string::npos);
  std::remove(path.c_str());
}

TEST_CASE("GDB's list of symbol files", "[code_memory]") {
  const auto* before = __jit_debug_descriptor.first;
  setenv("SINTER_GDB", "1", 1);
  auto block = publish_code(returns(10), "gdb_name");
  unsetenv("SINTER_GDB");
  REQUIRE(__jit_debug_descriptor.first != before);
  const auto* entry = __jit_debug_descriptor.first;
  std::string file(entry->symbol_file, entry->symbol_file_size);
  CHECK(file.substr(1, 3) == "ELF");
  CHECK(file.find("sinter:gdb_name") != std::string::npos);
  block.reset();
  CHECK(__jit_debug_descriptor.first == before);
}
