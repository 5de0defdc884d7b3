// The disk cache: what is stored comes back; whatever happened to a file, the worst is a miss.
#include "catch.hpp"

#include <sinter/runtime/disk_cache.hpp>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

using namespace sinter;

namespace {
/// A folder that goes with the test.
struct Folder {
  std::string path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sinter_cache_XXXXXX").string();
    path = std::string(::mkdtemp(pattern.data())) + "/deeper/cache";
  }
  ~Folder() { std::filesystem::remove_all(std::filesystem::path(path).parent_path().parent_path()); }
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
}  // namespace

TEST_CASE("the disk cache gives back what was stored, to its owner alone") {
  const Folder folder;
  const DiskCache cache(folder.path);
  CHECK_FALSE(cache.find("key"));
  const std::string value("machine\0code", 12);
  cache.store("key", value);
  REQUIRE(cache.find("key"));
  CHECK(*cache.find("key") == value);
  CHECK_FALSE(cache.find("kez"));
  cache.store("key", "newer");
  CHECK(*cache.find("key") == "newer");
  cache.store("", "");
  CHECK(*cache.find("") == "");
  struct stat status{};
  REQUIRE(::stat(folder.path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  REQUIRE(::stat(cache.path_of("key").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a damaged cache file is a miss") {
  const Folder folder;
  const DiskCache cache(folder.path);
  const std::string key = "the key", value = std::string(300, 'v') + "end";
  cache.store(key, value);
  const std::string path = cache.path_of(key), whole = read_file(path);
  const auto damaged_before = disk_cache_stats().damaged;

  std::mt19937 random(20);
  for (std::size_t at = 0; at < whole.size(); ++at) {  // every byte, one random change each
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ static_cast<char>(1 + random() % 255));
    write_file(path, broken);
    INFO("byte " << at);
    CHECK_FALSE(cache.find(key));
  }
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 16) {  // cut short
    write_file(path, whole.substr(0, size));
    CHECK_FALSE(cache.find(key));
  }
  for (int round = 0; round < 200; ++round) {  // garbage of any length
    std::string garbage(random() % 600, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    if (round % 2 == 0)
      garbage.replace(0, std::min<std::size_t>(garbage.size(), 48), whole, 0, 48);  // after a good header
    write_file(path, garbage);
    CHECK_FALSE(cache.find(key));
  }
  write_file(path, whole + "x");
  CHECK_FALSE(cache.find(key));
  CHECK(disk_cache_stats().damaged > damaged_before);

  write_file(path, whole);
  CHECK(cache.find(key));
  cache.store("another", value);
  std::filesystem::rename(cache.path_of("another"), path);  // the entry of another key, as in a collision
  CHECK_FALSE(cache.find(key));
  cache.store(key, value);  // a miss mends itself
  CHECK(*cache.find(key) == value);
}

TEST_CASE("files that others may have written, links and folders are not read") {
  const Folder folder;
  const DiskCache cache(folder.path);
  cache.store("key", "value");
  const std::string path = cache.path_of("key");
  ::chmod(path.c_str(), 0666);
  CHECK_FALSE(cache.find("key"));
  ::chmod(path.c_str(), 0600);
  CHECK(cache.find("key"));
  std::filesystem::rename(path, path + ".moved");
  std::filesystem::create_symlink(path + ".moved", path);
  CHECK_FALSE(cache.find("key"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK_FALSE(cache.find("key"));
  cache.store("key", "value");  // cannot replace a folder: counted, not thrown
  CHECK_FALSE(cache.find("key"));
}

TEST_CASE("a cache without a folder, or one that cannot be written, holds nothing") {
  const DiskCache none{std::string()};
  none.store("key", "value");
  CHECK_FALSE(none.find("key"));
  const auto before = disk_cache_stats();
  const DiskCache impossible("/proc/no/such/place");
  impossible.store("key", "value");
  CHECK_FALSE(impossible.find("key"));
  CHECK(disk_cache_stats().failures == before.failures + 1);
}

TEST_CASE("SINTER_CACHE_DIR names the folder, or switches the cache off") {
  const char* old = std::getenv("SINTER_CACHE_DIR");
  const std::string kept = old != nullptr ? old : "";
  ::setenv("SINTER_CACHE_DIR", "/some/where", 1);
  CHECK(DiskCache::standard().folder() == "/some/where");
  ::setenv("SINTER_CACHE_DIR", "off", 1);
  CHECK(DiskCache::standard().folder().empty());
  ::unsetenv("SINTER_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  CHECK(DiskCache::standard().folder() == "/xdg/sinter");
  ::unsetenv("XDG_CACHE_HOME");
  if (old != nullptr) ::setenv("SINTER_CACHE_DIR", kept.c_str(), 1);
}

TEST_CASE("processes that write one entry at once leave a whole one") {
  const Folder folder;
  const DiskCache cache(folder.path);
  cache.store("key", std::string(20000, '0'));
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t id = ::fork();
    if (id == 0) {
      for (int i = 0; i < 100; ++i)
        cache.store("key", std::string(20000 + static_cast<std::size_t>(child), static_cast<char>('a' + child)));
      ::_exit(0);
    }
    children.push_back(id);
  }
  bool is_whole = true;
  for (int i = 0; i < 300; ++i) {
    const auto value = cache.find("key");
    is_whole &=
        value.has_value() && value->size() >= 20000 && value->find_first_not_of((*value)[0]) == std::string::npos;
  }
  for (pid_t id : children) ::waitpid(id, nullptr, 0);
  CHECK(is_whole);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path)) ++files;
  CHECK(files == 1);  // nothing temporary is left
}
