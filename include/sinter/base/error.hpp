// Errors that say who must act. Every exception Sinter throws is one of these; each says which op, what was given, what
// is required and the user's line. Must not know tensors.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// A place in the user's source. Cheap to copy: the strings live in the binary.
struct Location {
  const char* file = nullptr;
  std::uint32_t line = 0;

  constexpr Location() = default;
  constexpr Location(const std::source_location& where) : file(where.file_name()), line(where.line()) {}
  static constexpr Location current(std::source_location where = std::source_location::current()) { return where; }
  /// "train.cpp:41" (file name without folders), or "" when unknown.
  std::string text() const;
};

/// Base of everything Sinter throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller's mistake. `op` names the operation or function that noticed it. The parts of what() are there by
/// themselves.
class UserError : public Error {
 public:
  UserError(std::string_view kind, std::string_view op, std::string_view what, Location where,
            std::string_view fix = {});
  UserError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});

  /// "matmul"; valid while the error lives.
  std::string_view op() const noexcept { return {what() + op_begin_, op_size_}; }
  /// The user's line; without a file where it is not known.
  Location where() const noexcept { return where_; }
  /// What to do, where that is certain, or "".
  std::string_view fix() const noexcept { return std::string_view(what()).substr(fix_begin_); }

 private:
  std::size_t op_begin_, op_size_, fix_begin_;  // in what(), so that copies cannot fail
  Location where_;
};

/// Shapes or ranks that do not fit.
class ShapeError : public UserError {
 public:
  ShapeError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});
};
/// A dtype that the operation does not take.
class DTypeError : public UserError {
 public:
  DTypeError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});
};
/// An index or axis out of range.
class IndexError : public UserError {
 public:
  IndexError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});
};
/// Something that is not allowed while a function is traced (reading a value, using a tensor of another trace).
class TraceError : public UserError {
 public:
  TraceError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});
};
/// A call that would have to compile where the stance forbids it.
class RecompileError : public UserError {
 public:
  RecompileError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});
};
/// A run-time assertion of the user (jit::check) does not hold.
class CheckError : public UserError {
 public:
  CheckError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});
};
/// Matrices that have no result: singular, not positive definite, not finite. Thrown when the value is computed.
class LinalgError : public UserError {
 public:
  LinalgError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});
};
/// Memory limit reached or allocation refused by the system.
class OutOfMemory : public Error {
 public:
  OutOfMemory(std::string_view device, std::uint64_t bytes, std::string_view detail);
  /// An error whose whole message is this text.
  explicit OutOfMemory(const std::string& text) : Error(text) {}
};
/// A device is missing, was used in a way it does not support, or failed.
class DeviceError : public UserError {
 public:
  DeviceError(std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});
};
/// A broken invariant inside Sinter: please report it.
class InternalError : public Error {
 public:
  explicit InternalError(std::string_view what, Location where = Location::current());
};

/// Throws InternalError unless `holds`. For invariants, never for user input.
inline void ensure(bool holds, const char* what, Location where = Location::current()) {
  if (SINTER_UNLIKELY(!holds)) throw InternalError(what, where);
}

SINTER_NAMESPACE_END
