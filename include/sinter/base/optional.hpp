// Optional: a value that may be unset, for members of the library's option structs. std::optional does the same, but
// each type that it is made for costs the compiler of a user's file 16 million instructions, and these have twenty.
#pragma once

#include <sinter/base/config.hpp>

#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// std::optional by members and by meaning, and converted from and to it.
template <class T>
class Optional {
 public:
  using value_type = T;
  constexpr Optional() noexcept : none_() {}
  constexpr Optional(std::nullopt_t) noexcept : none_() {}
  template <class U = T>
    requires(!std::same_as<std::remove_cvref_t<U>, Optional> && std::is_convertible_v<U, T>)
  constexpr Optional(U&& value) : value_(std::forward<U>(value)), has_value_(true) {}
  template <std::same_as<T> U>
  constexpr Optional(const std::optional<U>& other) : none_() {
    if (other) emplace(*other);
  }
  constexpr Optional(const Optional& other) : none_() {
    if (other.has_value_) emplace(*other);
  }
  constexpr Optional(Optional&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : none_() {
    if (other.has_value_) emplace(std::move(*other));
  }
  constexpr Optional& operator=(const Optional& other) {
    if (other.has_value_) *this = Optional(*other);
    else reset();
    return *this;
  }
  constexpr Optional& operator=(Optional&& other) noexcept(std::is_nothrow_move_constructible_v<T>) {
    if (this == &other) return *this;
    reset();
    if (other.has_value_) emplace(std::move(*other));
    return *this;
  }
  // For lists in braces, `range = {0, 1}`; of one scalar it would be as good as the default, which `= {}` means.
  template <class U = T>
    requires(!std::same_as<std::remove_cvref_t<U>, Optional> && std::is_convertible_v<U, T> &&
             !(std::is_scalar_v<T> && std::same_as<T, std::decay_t<U>>))
  constexpr Optional& operator=(U&& value) {
    return *this = Optional(std::forward<U>(value));
  }
  constexpr ~Optional() { reset(); }

  constexpr bool has_value() const noexcept { return has_value_; }
  /// Not of bool, of which it would be taken for the value: std::optional<bool>(Optional<bool>(false)) were true.
  constexpr explicit operator bool() const noexcept
    requires(!std::same_as<T, bool>)
  {
    return has_value_;
  }
  constexpr const T& operator*() const noexcept { return value_; }
  constexpr T& operator*() noexcept { return value_; }
  constexpr const T* operator->() const noexcept { return std::addressof(value_); }
  constexpr T* operator->() noexcept { return std::addressof(value_); }
  constexpr const T& value() const {
    if (!has_value_) throw std::bad_optional_access();
    return value_;
  }
  template <class U>
  constexpr T value_or(U&& otherwise) const {
    return has_value_ ? value_ : static_cast<T>(std::forward<U>(otherwise));
  }
  template <class... A>
  constexpr T& emplace(A&&... arguments) {
    reset();
    std::construct_at(std::addressof(value_), std::forward<A>(arguments)...);
    has_value_ = true;
    return value_;
  }
  constexpr void reset() noexcept {
    if (has_value_) std::destroy_at(std::addressof(value_));
    has_value_ = false;
  }
  operator std::optional<T>() const { return has_value_ ? std::optional<T>(value_) : std::nullopt; }

  friend constexpr bool operator==(const Optional& a, const Optional& b) {
    return a.has_value_ == b.has_value_ && (!a.has_value_ || *a == *b);
  }
  friend constexpr bool operator==(const Optional& a, std::nullopt_t) noexcept { return !a.has_value_; }

 private:
  union {
    char none_;
    T value_;
  };
  bool has_value_ = false;
};

SINTER_NAMESPACE_END
