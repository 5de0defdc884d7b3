// Message layout of the errors: "sinter::Kind: op: what [file:line]" and, on a second line, the fix.
#pragma once

#include <sinter/base/error.hpp>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
inline constexpr std::string_view error_prefix = "sinter::";
inline std::string error_text(std::string_view kind, std::string_view op, std::string_view what, Location where,
                              std::string_view fix) {
  std::string text(error_prefix);
  text.append(kind).append(": ");
  if (!op.empty()) text.append(op).append(": ");
  text.append(what);
  if (where.file != nullptr) text.append(" [").append(where.text()).append("]");
  if (!fix.empty()) text.append("\n  ").append(fix);
  return text;
}
}  // namespace base_detail

SINTER_DECL std::string Location::text() const {
  if (file == nullptr) return {};
  std::string_view name = file;
  if (auto slash = name.find_last_of('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  return std::string(name) + ":" + std::to_string(line);
}

SINTER_DECL UserError::UserError(std::string_view kind, std::string_view op, std::string_view what, Location where,
                                 std::string_view fix)
    : Error(base_detail::error_text(kind, op, what, where, fix)),
      op_begin_(base_detail::error_prefix.size() + kind.size() + 2),
      op_size_(op.size()),
      fix_begin_(std::string_view(this->what()).size() - fix.size()),
      where_(where) {}
SINTER_DECL UserError::UserError(std::string_view op, std::string_view what, Location where, std::string_view fix)
    : UserError("UserError", op, what, where, fix) {}
SINTER_DECL ShapeError::ShapeError(std::string_view op, std::string_view what, Location where, std::string_view fix)
    : UserError("ShapeError", op, what, where, fix) {}
SINTER_DECL DTypeError::DTypeError(std::string_view op, std::string_view what, Location where, std::string_view fix)
    : UserError("DTypeError", op, what, where, fix) {}
SINTER_DECL IndexError::IndexError(std::string_view op, std::string_view what, Location where, std::string_view fix)
    : UserError("IndexError", op, what, where, fix) {}
SINTER_DECL TraceError::TraceError(std::string_view op, std::string_view what, Location where, std::string_view fix)
    : UserError("TraceError", op, what, where, fix) {}
SINTER_DECL CheckError::CheckError(std::string_view op, std::string_view what, Location where, std::string_view fix)
    : UserError("CheckError", op, what, where, fix) {}
SINTER_DECL LinalgError::LinalgError(std::string_view op, std::string_view what, Location where, std::string_view fix)
    : UserError("LinalgError", op, what, where, fix) {}
SINTER_DECL DeviceError::DeviceError(std::string_view op, std::string_view what, Location where, std::string_view fix)
    : UserError("DeviceError", op, what, where, fix) {}
SINTER_DECL RecompileError::RecompileError(std::string_view op, std::string_view what, Location where,
                                           std::string_view fix)
    : UserError("RecompileError", op, what, where, fix) {}
SINTER_DECL OutOfMemory::OutOfMemory(std::string_view device, std::uint64_t bytes, std::string_view detail)
    : Error("sinter::OutOfMemory: " + std::string(device) + ": could not allocate " + std::to_string(bytes) + " bytes" +
            (detail.empty() ? "" : "\n  " + std::string(detail))) {}
SINTER_DECL InternalError::InternalError(std::string_view what, Location where)
    : Error("sinter::InternalError: " + std::string(what) + " [" + where.text() +
            "]\n  this is a bug in Sinter; please report it") {}

SINTER_NAMESPACE_END
