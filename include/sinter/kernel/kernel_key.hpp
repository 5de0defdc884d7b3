// Keys of stored code: all that a kernel and a schedule say, as bytes. Equal bytes are equal kernels, on any machine of
// this byte order, so that a stored key can be compared whole. Owns the form; must not know who stores what.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/schedule.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// Puts fields one behind the other. Lists come after their length, so that no two sequences of fields look alike.
class KeyWriter {
 public:
  template <class T>
    requires(std::integral<T> || std::is_enum_v<T>)
  KeyWriter& add(T number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  template <class List, class AddOne>
  KeyWriter& add_list(const List& list, const AddOne& add_one) {
    add(static_cast<std::uint32_t>(list.size()));
    for (const auto& item : list) add_one(item);
    return *this;
  }
  KeyWriter& add(const Inst& inst);
  KeyWriter& add(const Kernel& kernel);
  KeyWriter& add(const Schedule& schedule);

  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }

 private:
  KeyWriter& add(const ScalarFold& fold);
  std::string bytes_;
};

SINTER_NAMESPACE_END
