// The code cache: what was compiled comes back from disk with the same bits; whatever happened to its file, folder or
// writers, the worst is that code is compiled again.
#include "catch.hpp"

#include <sinter/runtime/code_cache.hpp>
#include <sinter/runtime/program_code.hpp>
#include <sinter/sinter.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;
using runtime_detail::CodeCache;

extern char** environ;

namespace {
constexpr std::int64_t megabyte = 1 << 20;

/// A folder that goes with the test.
struct Folder {
  std::string path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sinter_code_XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string cpu() const { return path + "/cpu"; }
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// The value of a key as a new process sees it.
std::optional<std::string> stored_in(const std::string& folder, std::string_view key) {
  CodeCache cache(folder, "v1", megabyte);
  const auto found = cache.find(key);
  return found ? std::optional<std::string>(found->value()) : std::nullopt;
}
void store_in(const std::string& folder, std::string_view key, std::string_view value) {
  CodeCache cache(folder, "v1", megabyte);
  REQUIRE(cache.keep(key, value));
  cache.write();
  REQUIRE(cache.stats().stored == 1);
}
}  // namespace

TEST_CASE("the code cache gives back what was kept, in this process and the next") {
  const Folder folder;
  const std::string value("machine\0code", 12);
  CodeCache cache(folder.cpu(), "v1", megabyte);
  CHECK_FALSE(cache.find("key"));
  CHECK(cache.keep("key", value));
  CHECK_FALSE(cache.keep("key", value));  // known
  REQUIRE(cache.find("key"));
  CHECK(cache.find("key")->value() == value);
  CHECK_FALSE(std::filesystem::exists(cache.path()));  // nothing is written on the way
  cache.write();
  CHECK_FALSE(cache.has_kept());
  CHECK(cache.find("key")->value() == value);
  CHECK(stored_in(folder.cpu(), "key") == value);
  CHECK_FALSE(stored_in(folder.cpu(), "kez"));
  CHECK_FALSE(CodeCache(folder.cpu(), "v2", megabyte).find("key"));  // another build's
  store_in(folder.cpu(), "", "");
  store_in(folder.cpu(), "other", "2");
  CHECK(stored_in(folder.cpu(), "") == "");
  CHECK(stored_in(folder.cpu(), "key") == value);
  CHECK(stored_in(folder.cpu(), "other") == "2");
  CHECK(cache.stats().loaded == 3);
  CHECK(cache.stats().stored == 1);
  struct stat status{};
  REQUIRE(::stat(folder.cpu().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  REQUIRE(::stat(cache.path().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("the code cache keeps no descriptor, and follows a pack that another process replaces") {
  const Folder folder;
  store_in(folder.cpu(), "a", "1");
  const auto count = [] {
    int open = 0;
    for (int i = 3; i < 256; ++i) open += ::fcntl(i, F_GETFD) >= 0;
    return open;
  };
  const int before = count();
  CodeCache cache(folder.cpu(), "v1", megabyte);
  REQUIRE(cache.find("a"));
  CHECK(count() == before);
  CHECK(cache.keep("b", "2"));
  cache.write();
  CHECK(count() == before);
  store_in(folder.cpu(), "c", "3");  // a new file in place of the one that `cache` knows
  REQUIRE(cache.find("a"));
  CHECK(cache.find("a")->value() == "1");
  CHECK(cache.find("c")->value() == "3");
  CHECK(cache.stats().damaged == 0);
}

TEST_CASE("of entries of one age those stay that were just made") {
  const Folder folder;
  const std::string large(100'000, 'x');
  for (int i = 0; i < 9; ++i) {
    CodeCache cache(folder.cpu(), "v1", megabyte);
    CHECK(cache.keep("old " + std::to_string(i), large));
    cache.write();
  }
  for (int i = 0; i < 4; ++i) {
    CodeCache cache(folder.cpu(), "v1", megabyte);
    const std::string key = "new " + std::to_string(i);
    CHECK(cache.keep(key, large));
    cache.write();
    CHECK(stored_in(folder.cpu(), key) == large);
  }
}

TEST_CASE("a home that is not there is not made") {
  const Folder folder;
  const char* const before = std::getenv("HOME");
  const std::string home = before != nullptr ? before : "";
  ::setenv("HOME", (folder.path + "/none").c_str(), 1);
  CodeCache cache(folder.path + "/none/.cache/sinter/cpu", "v1", megabyte);
  CHECK(cache.keep("key", "1"));
  cache.write();
  if (before != nullptr) ::setenv("HOME", home.c_str(), 1);
  else ::unsetenv("HOME");
  CHECK(cache.stats().failures == 1);
  CHECK_FALSE(std::filesystem::exists(folder.path + "/none"));
}

TEST_CASE("a damaged pack gives what was stored or nothing, and mends itself") {
  const Folder folder;
  const std::string key = "the key", value = std::string(100, 'v') + "end";
  store_in(folder.cpu(), key, value);
  store_in(folder.cpu(), "second", "2");
  const std::string path = CodeCache(folder.cpu(), "v1", megabyte).path(), whole = read_file(path);
  std::mt19937 random(20);
  int hits = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {  // every byte, one random change each
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ static_cast<char>(1 + random() % 255));
    write_file(path, broken);
    const auto first = stored_in(folder.cpu(), key), second = stored_in(folder.cpu(), "second");
    INFO("byte " << at);
    CHECK((!first || *first == value));
    CHECK((!second || *second == "2"));
    CHECK_FALSE((first && second));
    hits += first || second;
  }
  CHECK(hits > 100);  // damage of one entry is not damage of others
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 16) {
    write_file(path, whole.substr(0, size));
    CHECK_FALSE(stored_in(folder.cpu(), key));
  }
  for (int round = 0; round < 200; ++round) {
    std::string garbage(random() % 600, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    if (round % 2 == 0)
      garbage.replace(0, std::min<std::size_t>(garbage.size(), 64), whole, 0, 64);  // after a good start
    write_file(path, garbage);
    CHECK_FALSE(stored_in(folder.cpu(), key));
  }
  store_in(folder.cpu(), key, value);
  CHECK(stored_in(folder.cpu(), key) == value);

  CodeCache cache(folder.cpu(), "v1", megabyte);
  std::string broken = read_file(path);
  broken.back() = static_cast<char>(broken.back() ^ 1);  // in the only entry
  write_file(path, broken);
  CHECK_FALSE(cache.find(key));
  CHECK(cache.stats().damaged == 1);
  cache.keep(key, value);
  cache.write();
  CHECK(stored_in(folder.cpu(), key) == value);
}

TEST_CASE("code is read from files and folders of our own alone") {
  const Folder folder;
  store_in(folder.cpu(), "key", "value");
  CodeCache cache(folder.cpu(), "v1", megabyte);
  const std::string path = cache.path();
  for (const ::mode_t mode : {0640u, 0604u, 0660u, 0666u}) {
    ::chmod(path.c_str(), mode);
    CHECK_FALSE(stored_in(folder.cpu(), "key"));
  }
  ::chmod(path.c_str(), 0600);
  for (const ::mode_t mode : {0750u, 0705u, 0777u}) {
    ::chmod(folder.cpu().c_str(), mode);
    CHECK_FALSE(stored_in(folder.cpu(), "key"));
    CodeCache writer(folder.cpu(), "v1", megabyte);  // and nothing is written there
    writer.keep("new", "1");
    writer.write();
    CHECK(writer.stats().failures == 1);
  }
  ::chmod(folder.cpu().c_str(), 0700);
  CHECK(stored_in(folder.cpu(), "key") == "value");
  CHECK_FALSE(stored_in(folder.cpu(), "new"));

  std::filesystem::rename(path, path + ".moved");
  std::filesystem::create_symlink(path + ".moved", path);
  CHECK_FALSE(stored_in(folder.cpu(), "key"));
  std::filesystem::remove(path);
  ::mkfifo(path.c_str(), 0600);  // opening it does not wait for a writer
  CHECK_FALSE(stored_in(folder.cpu(), "key"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK_FALSE(stored_in(folder.cpu(), "key"));
  CodeCache writer(folder.cpu(), "v1", megabyte);
  writer.keep("new", "1");
  writer.write();  // cannot replace a folder
  CHECK(writer.stats().failures == 1);
  std::filesystem::remove(path);
  std::filesystem::rename(path + ".moved", path);
  CHECK(stored_in(folder.cpu(), "key") == "value");
  std::filesystem::create_directory_symlink(folder.cpu(), folder.path + "/link");
  CHECK_FALSE(stored_in(folder.path + "/link", "key"));
}

TEST_CASE("code of another user is not read") {
  if (::geteuid() != 0) SINTER_SKIP("only the superuser can give files away");
  const Folder folder;
  store_in(folder.cpu(), "key", "value");
  const std::string path = CodeCache(folder.cpu(), "v1", megabyte).path();
  REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
  CHECK_FALSE(stored_in(folder.cpu(), "key"));
  REQUIRE(::chown(path.c_str(), 0, 0) == 0);
  REQUIRE(::chown(folder.cpu().c_str(), 12345, 12345) == 0);
  CHECK_FALSE(stored_in(folder.cpu(), "key"));
}

TEST_CASE("a code cache without folder, version or bytes holds nothing; one that cannot be written is a miss") {
  for (CodeCache* none :
       {new CodeCache("", "v1", megabyte), new CodeCache("/tmp", "", megabyte), new CodeCache("/tmp", "v1", 0)}) {
    CHECK(none->holds_nothing());
    CHECK_FALSE(none->keep("key", "value"));
    CHECK_FALSE(none->find("key"));
    none->write();
    delete none;
  }
  std::vector<std::string> lines;
  Context::get().logs = "cache";
  auto sink =
      std::exchange(Context::get().sink, [&](std::string_view, std::string_view line) { lines.emplace_back(line); });
  CodeCache impossible("/proc/no/such/place", "v1", megabyte);
  for (int round = 0; round < 2; ++round) {
    CHECK(impossible.keep("key", "value"));
    impossible.write();
    CHECK_FALSE(impossible.has_kept());
  }
  Context::get().sink = sink;
  Context::get().logs = "";
  CHECK(impossible.stats().failures == 2);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "cannot write to /proc/no/such/place: No such file or directory");
}

TEST_CASE("above its limit the code cache drops what was used least recently") {
  const Folder folder;
  constexpr std::int64_t limit = 100'000;
  const std::string block(10'000, 'x');
  for (int i = 0; i < 12; ++i) {
    CodeCache cache(folder.cpu(), "v1", limit);
    cache.keep("key " + std::to_string(i), block);
    cache.write();
    CHECK(cache.stats().bytes <= limit);
    if (i == 9) CHECK(cache.stats().dropped > 0);
  }
  CodeCache cache(folder.cpu(), "v1", limit);
  CHECK_FALSE(cache.keep("too large", std::string(limit / 2, 'x')));
  int kept = 0;
  for (int i = 0; i < 12; ++i) kept += cache.find("key " + std::to_string(i)).has_value();
  CHECK(kept >= 5);
  CHECK(kept < 10);

  // All builds together: packs of others make room, those that were used least recently first.
  for (const char* build : {"old", "middle", "new"}) {
    CodeCache other(folder.cpu(), build, limit);
    for (int i = 0; i < 4; ++i) other.keep("key " + std::to_string(i), block);
    other.write();
    CHECK(other.stats().stored == 4);
    if (std::string_view(build) != "old") continue;
    CHECK_FALSE(std::filesystem::exists(cache.path()));  // both are more than the limit
    const timespec past[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    REQUIRE(::utimensat(AT_FDCWD, other.path().c_str(), past, 0) == 0);
  }
  CHECK_FALSE(std::filesystem::exists(CodeCache(folder.cpu(), "old", limit).path()));
  CHECK(CodeCache(folder.cpu(), "middle", limit).find("key 3"));
  CHECK(CodeCache(folder.cpu(), "new", limit).find("key 3"));
}

TEST_CASE("processes that write one code cache at once, some of them killed, lose nothing that was written") {
  const Folder folder;
  constexpr int processes = 6, entries = 25;
  std::vector<pid_t> children;
  for (int child = 0; child < processes; ++child) {
    const pid_t id = ::fork();
    if (id == 0) {
      for (int i = 0; i < entries || child % 2 == 1; ++i) {  // odd ones go on until they are killed
        CodeCache cache(folder.cpu(), "v1", 16 * megabyte);
        cache.keep(std::to_string(child) + " " + std::to_string(i % 1000),
                   std::string(5000, static_cast<char>('a' + child)));
        while (cache.has_kept()) cache.write();
      }
      ::_exit(0);
    }
    children.push_back(id);
  }
  std::mt19937 random(7);
  for (int child = 0; child < processes; ++child) {
    const pid_t id = children[static_cast<std::size_t>(child)];
    if (child % 2 == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10 + random() % 40));
      ::kill(id, SIGKILL);
    }
    ::waitpid(id, nullptr, 0);
  }
  CodeCache cache(folder.cpu(), "v1", 16 * megabyte);
  for (int child = 0; child < processes; child += 2)
    for (int i = 0; i < entries; ++i) {
      const auto found = cache.find(std::to_string(child) + " " + std::to_string(i));
      REQUIRE(found);
      CHECK(found->value() == std::string(5000, static_cast<char>('a' + child)));
    }
  CHECK(cache.stats().damaged == 0);
  cache.keep("last", "1");
  cache.write();  // cleans up
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.cpu())) ++files;
  CHECK(files == 2);  // the pack and the lock
}

// ---- programs -------------------------------------------------------------------------------------------------------

namespace {
/// Kernels of all kinds: the bits of their results.
std::string results_of_all_kinds() {
  manual_seed(3);
  const Tensor x = rand({37, 70}), w = rand({70, 50}), b = rand({50}), image = rand({1, 3, 12, 12}),
               k = rand({4, 3, 3, 3});
  const Tensor long_row = rand({100'000}), index = copy_of(std::vector<std::int64_t>{3, 1, 3}, {3});
  const Tensor square = rand({300, 300}), narrow = rand({500, 6});
  auto f = jit::compile([](Tensor a, Tensor c, Tensor d) { return softmax(gelu(matmul(a, c) + d), -1); });
  auto g = jit::compile([](Tensor a, Tensor i, Tensor r, Tensor s, Tensor n) {
    return std::tuple(index_select(a, 0, i), sum(exp(r)), cumsum(a, 1), s.t() * 2 + s, argmax(a, 1), sum(n * n, 1),
                      tanh(mean(a, 0)), sin(a) + where(a > 0.5f, a, 1 - a));
  });
  auto h = jit::compile([](Tensor a, Tensor c) { return relu(conv2d(a, c)); });
  std::string bits;
  const auto add = [&](const Tensor& t) {
    for (const double v : to_vector<double>(t.to(DType::f64))) bits.append(reinterpret_cast<const char*>(&v), sizeof v);
  };
  add(f(x, w, b));
  std::apply([&](const auto&... t) { (add(t), ...); }, g(x, index, long_row, square, narrow));
  add(h(image, k));
  return bits;
}

/// A variable that run_program() sets.
const char* given(const char* name) { return std::getenv(name); }

struct Run {
  std::int64_t generated = 0, loaded = 0, damaged = 0, stored = 0;
  std::string bits;
  int status = -1;
};

/// What the hidden test below does in a process of its own.
Run run_program(const Folder& folder, std::vector<std::string> variables = {}, int kill_after_ms = -1) {
  const std::string report =
      folder.path + "/report" + std::to_string(::getpid()) + std::to_string(std::random_device{}());
  variables.insert(variables.begin(),
                   {"SINTER_CACHE_MB=8", "SINTER_CACHE_DIR=" + folder.path, "CODE_CACHE_REPORT=" + report});
  std::vector<std::string> all = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto is_set = [&](const std::string& v) {
      return text.starts_with(std::string_view(v).substr(0, v.find('=') + 1));
    };
    if (std::none_of(variables.begin(), variables.end(), is_set)) all.emplace_back(text);
  }
  // The last of two variables with one name counts for us.
  std::vector<std::string> unique;
  for (auto v = all.rbegin(); v != all.rend(); ++v)
    if (std::none_of(unique.begin(), unique.end(),
                     [&](const std::string& u) { return u.starts_with(v->substr(0, v->find('=') + 1)); }))
      unique.push_back(*v);
  std::vector<char*> pointers;
  for (std::string& v : unique) pointers.push_back(v.data());
  pointers.push_back(nullptr);
  std::string program = "/proc/self/exe", name = "[code_cache_program]";
  char* arguments[] = {program.data(), name.data(), nullptr};
  pid_t id = 0;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  REQUIRE(::posix_spawn(&id, program.c_str(), &actions, nullptr, arguments, pointers.data()) == 0);
  ::posix_spawn_file_actions_destroy(&actions);
  if (kill_after_ms >= 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kill_after_ms));
    ::kill(id, SIGKILL);
  }
  Run run;
  ::waitpid(id, &run.status, 0);
  std::ifstream in(report, std::ios::binary);
  in >> run.generated >> run.loaded >> run.damaged;
  in.ignore();
  run.bits = {std::istreambuf_iterator<char>(in), {}};
  return run;
}
}  // namespace

TEST_CASE("a program whose code may be stored", "[.][code_cache_program]") {
  const char* report = given("CODE_CACHE_REPORT");
  REQUIRE(report != nullptr);
  const std::string bits = results_of_all_kinds();
  const CodeCacheStats stats = code_cache_stats();
  std::ofstream(report, std::ios::binary) << stats.generated << " " << stats.loaded << " " << stats.damaged << "\n"
                                          << bits;
  if (given("CODE_CACHE_WAITS") == nullptr) return;
  for (int round = 0; round < 100 && code_cache_stats().stored == 0; ++round)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::_Exit(code_cache_stats().stored == stats.generated ? 0 : 1);
}

#ifdef SINTER_NO_X86
TEST_CASE("stored code of programs") { SINTER_SKIP("there is no x86 back end in this build"); }
#else
TEST_CASE("a second start of a program compiles nothing, and gives the same bits") {
  const Folder folder;
  const Run first = run_program(folder), second = run_program(folder);
  CHECK(first.generated > 15);
  CHECK(first.loaded == 0);
  CHECK(second.generated == 0);
  CHECK(second.loaded == first.generated);
  CHECK(first.bits.size() > 1000);
  CHECK(first.bits == second.bits);
  struct stat status{};
  REQUIRE(::stat(folder.cpu().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);

  for (const char* off : {"SINTER_CACHE_DIR=off", "SINTER_CACHE_MB=0", "SINTER_CHECK=1"}) {
    const Run without = run_program(folder, {off});
    INFO(off);
    CHECK(without.generated == first.generated);
    CHECK(without.loaded == 0);
    CHECK(without.bits == first.bits);
  }
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder.cpu()))
    if (entry.path().extension() == ".code") path = entry.path();
  std::string bytes = read_file(path);
  std::memset(bytes.data() + bytes.size() / 2, 0x90, 2000);  // code that would run, and be wrong
  write_file(path, bytes);
  const Run third = run_program(folder), fourth = run_program(folder);
  CHECK(third.damaged > 0);
  CHECK(third.generated > 0);
  CHECK(third.generated < first.generated);
  CHECK(third.bits == first.bits);
  CHECK(fourth.generated == 0);
  CHECK(fourth.bits == first.bits);
}

TEST_CASE("two processes generate the same bytes: code holds no address") {
  // Each process has its program, libraries and heap at other addresses.
  std::vector<std::vector<std::pair<Hash128, Hash128>>> codes;
  for (int i = 0; i < 2; ++i) {
    const Folder folder;
    run_program(folder);
    const int open = ::open(folder.cpu().c_str(), O_RDONLY | O_DIRECTORY);
    std::shared_ptr<const runtime_detail::CodePack> pack;
    std::string why;
    using Opened = runtime_detail::CodePack::Opened;
    const std::string name =
        std::filesystem::path(CodeCache(folder.cpu(), runtime_detail::program_version(), megabyte).path()).filename();
    CHECK(runtime_detail::CodePack::open(open, name, "another", pack, why) == Opened::refused);
    CHECK(why == "of another version");
    REQUIRE(runtime_detail::CodePack::open(open, name, runtime_detail::program_version(), pack, why) == Opened::whole);
    ::close(open);
    auto& code = codes.emplace_back();
    for (const auto& entry : pack->entries()) code.emplace_back(entry.hash, entry.check);
  }
  CHECK(codes[0].size() > 15);
  CHECK(codes[0] == codes[1]);
}

TEST_CASE("code for another instruction set is not taken") {
  const Folder folder;
  if (!__builtin_cpu_supports("avx512f")) SINTER_SKIP("this processor has one instruction set only");
  const Run wide = run_program(folder), narrow = run_program(folder, {"SINTER_ISA=avx2"});
  CHECK(narrow.loaded == 0);
  CHECK(narrow.generated > 0);
  for (const char* isa : {"SINTER_ISA=avx2", "SINTER_ISA=avx512"}) CHECK(run_program(folder, {isa}).generated == 0);
}

TEST_CASE("a program that does not end writes its code in the background") {
  const Folder folder;
  const Run waits = run_program(folder, {"CODE_CACHE_WAITS=1"});
  CHECK(waits.status == 0);
  CHECK(waits.generated > 0);
  CHECK(run_program(folder).generated == 0);
}

TEST_CASE("programs that start at once and are killed leave a cache that serves") {
  const Folder folder;
  const Run alone = run_program(Folder());
  std::vector<std::thread> starts;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 8; ++i)
    starts.emplace_back([&, i] {
      const Run run = run_program(folder, {}, i % 2 == 0 ? -1 : 20 + 15 * i);
      if (i % 2 == 0 && run.bits != alone.bits) ++wrong;
    });
  for (std::thread& start : starts) start.join();
  CHECK(wrong == 0);
  run_program(folder);
  const Run last = run_program(folder);
  CHECK(last.generated == 0);
  CHECK(last.damaged == 0);
  CHECK(last.bits == alone.bits);
}

TEST_CASE("a forked child leaves to its parent what the parent compiled") {
  const Folder folder;
  CodeCache cache(folder.cpu(), "v1", megabyte);
  cache.keep("parent", "1");
  const pid_t id = ::fork();
  if (id == 0) {
    cache.forget_kept();  // as the program's cache does in each child
    cache.keep("child", "2");
    cache.write();
    ::_exit(cache.stats().stored == 1 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(id, &status, 0);
  CHECK(status == 0);
  CHECK_FALSE(stored_in(folder.cpu(), "parent"));
  cache.write();
  CHECK(stored_in(folder.cpu(), "parent") == "1");
  CHECK(stored_in(folder.cpu(), "child") == "2");
}

TEST_CASE("stats() of a function tell code that was compiled from code on disk") {
  const Folder folder;
  ::setenv("SINTER_CACHE_DIR", folder.path.c_str(), 1);
  ::setenv("SINTER_CACHE_MB", "8", 1);
  runtime_detail::reopen_program_code();
  const auto f = jit::compile([](Tensor x) { return exp(x) * 3 - tanh(x); });
  const Tensor x = rand({100});
  jit::reset();
  const auto first = to_vector<float>(f(x));
  CHECK(f.stats().code_generated == 1);
  CHECK(f.stats().code_loaded == 0);
  write_code_cache();
  CHECK(code_cache_stats().stored >= 1);
  jit::reset();
  CHECK(to_vector<float>(f(x)) == first);
  CHECK(f.stats().code_generated == 0);
  CHECK(f.stats().code_loaded == 1);
  const auto same = jit::compile([](Tensor y) { return exp(y) * 3 - tanh(y); });
  same(x);  // shares the kernel
  CHECK(same.stats().code_generated + same.stats().code_loaded == 0);

  ::setenv("SINTER_CACHE_MB", "8x", 1);
  try {
    runtime_detail::reopen_program_code();
    FAIL("no error");
  } catch (const UserError& error) {
    CHECK_THAT(error.what(), Catch::Contains("SINTER_CACHE_MB: \"8x\" is no number of megabytes from 0 to 4096"));
    CHECK_THAT(error.what(), Catch::Contains("use 64, say, 0 to keep no machine code on disk"));
  }
  for (const char* bad : {"-1", "4097", " 8", "99999999999999999999"}) {
    ::setenv("SINTER_CACHE_MB", bad, 1);
    CHECK_THROWS_AS(runtime_detail::reopen_program_code(), UserError);
  }
  ::setenv("SINTER_CACHE_MB", "0", 1);
  ::unsetenv("SINTER_CACHE_DIR");
  runtime_detail::reopen_program_code();
}
#endif
