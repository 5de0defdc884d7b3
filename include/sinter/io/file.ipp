// Mapped and atomically written files, by POSIX.
#pragma once

#include <sinter/io/file.hpp>

#include <sinter/base/index.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL IoError::IoError(std::string_view op, const std::string& path, std::string_view what, Location where,
                             std::string_view fix)
    : UserError("IoError", op, path + ": " + std::string(what), where, fix) {}

namespace io {
namespace io_detail {
/// Closes a file that is only read.
struct OpenFile {
  int handle;
  ~OpenFile() {
    if (handle >= 0) ::close(handle);
  }
};
inline std::string system_text(const char* what, int error) { return std::string(what) + ": " + std::strerror(error); }
inline std::string folder_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
}  // namespace io_detail

SINTER_DECL MappedFile::MappedFile(std::string path, const std::byte* first, std::size_t size)
    : path_(std::move(path)), first_(first), size_(size) {}

SINTER_DECL std::span<const std::byte> MappedFile::bytes() const { return {first_, size_}; }
SINTER_DECL MappedFile::~MappedFile() {
  if (size_ != 0) ::munmap(const_cast<std::byte*>(first_), size_);
}

SINTER_DECL std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, std::string_view function,
                                                               Location where) {
  const io_detail::OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.handle < 0) throw IoError(function, path, io_detail::system_text("cannot be opened", errno), where);
  struct stat status{};
  if (::fstat(file.handle, &status) != 0)
    throw IoError(function, path, io_detail::system_text("has no size", errno), where);
  if (!S_ISREG(status.st_mode)) throw IoError(function, path, "is no regular file", where);
  const auto size = as_index(status.st_size);
  void* first = nullptr;
  if (size != 0) {
    first = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.handle, 0);
    if (first == MAP_FAILED) throw IoError(function, path, io_detail::system_text("cannot be mapped", errno), where);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(first), size));
}

SINTER_DECL AtomicFile::AtomicFile(std::string path, std::string_view function, Location where)
    : path_(std::move(path)), function_(function), where_(where) {
  static std::atomic<unsigned> made{0};
  do {  // mkstemp would leave the file to its owner alone
    temporary_ = path_ + "." + std::to_string(::getpid()) + "-" + std::to_string(made++);
    handle_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (handle_ < 0 && errno == EEXIST);
  if (handle_ < 0) fail("cannot be written");
}

SINTER_DECL AtomicFile::~AtomicFile() {
  if (handle_ < 0) return;
  ::close(handle_);
  ::unlink(temporary_.c_str());
}

SINTER_DECL void AtomicFile::fail(const char* what) const {
  throw IoError(function_, path_, io_detail::system_text(what, errno), where_,
                errno == ENOENT ? "make its folder first" : "");
}

SINTER_DECL void AtomicFile::write(const void* from, std::size_t bytes) {
  constexpr std::size_t most_at_once = std::size_t{1} << 30;
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t now = ::write(handle_, static_cast<const char*>(from) + done, std::min(bytes - done, most_at_once));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) fail("cannot be written");
    done += as_index(now);
  }
  written_ += bytes;
}

SINTER_DECL void AtomicFile::commit() {
  if (::fsync(handle_) != 0) fail("cannot be brought to the disk");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be put in its place");
  ::close(std::exchange(handle_, -1));
  const io_detail::OpenFile folder{::open(io_detail::folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  // The file is there; folders that cannot be read, or systems that know no such thing, are no failure of it.
  if (folder.handle >= 0 && ::fsync(folder.handle) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail("its folder cannot be brought to the disk");
}

}  // namespace io
SINTER_NAMESPACE_END
