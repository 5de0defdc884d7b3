// The base layer: messages of errors, SmallVector, Ref, Hasher.
#include "../catch.hpp"

#include <sinter/base/error.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/base/sort_few.hpp>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;

TEST_CASE("errors: one layout for all") {
  Location where;
  where.file = "/home/user/src/train.cpp";
  where.line = 41;
  CHECK(where.text() == "train.cpp:41");
  CHECK(Location{}.text().empty());
  CHECK(std::string(ShapeError("matmul", "inner sizes differ", where, "transpose b").what()) ==
        "sinter::ShapeError: matmul: inner sizes differ [train.cpp:41]\n  transpose b");
  CHECK(std::string(DTypeError("exp", "needs floats").what()) == "sinter::DTypeError: exp: needs floats");
  CHECK(std::string(IndexError("slice", "axis 3").what()) == "sinter::IndexError: slice: axis 3");
  CHECK(std::string(TraceError("item", "tracing").what()) == "sinter::TraceError: item: tracing");
  CHECK(std::string(DeviceError("", "no device").what()) == "sinter::DeviceError: no device");
  CHECK(std::string(UserError("compile", "what").what()) == "sinter::UserError: compile: what");
  CHECK(std::string(OutOfMemory("cpu", 64, "limit is 32").what()) ==
        "sinter::OutOfMemory: cpu: could not allocate 64 bytes\n  limit is 32");
}

TEST_CASE("errors: the parts of the message are fields") {
  Location where;
  where.file = "/home/user/src/train.cpp";
  where.line = 41;
  const ShapeError error("matmul", "inner sizes differ", where, "transpose b");
  const UserError copy = error;
  CHECK(copy.op() == "matmul");
  CHECK(copy.where().text() == "train.cpp:41");
  CHECK(copy.fix() == "transpose b");
  const DTypeError bare("", "needs floats");
  CHECK(bare.op().empty());
  CHECK(bare.where().file == nullptr);
  CHECK(bare.fix().empty());
}

TEST_CASE("errors: a broken invariant names its line") {
  CHECK_NOTHROW(ensure(true, "holds"));
  try {
    ensure(false, "tables agree");
    FAIL("did not throw");
  } catch (const InternalError& error) {
    const std::string text = error.what();
    CHECK(text.find("sinter::InternalError: tables agree [base_test.cpp:") == 0);
    CHECK(text.find("please report it") != std::string::npos);
  }
}

TEST_CASE("sort_few: sorted, and equal elements keep their order") {
  std::vector<std::pair<int, char>> few = {{2, 'a'}, {1, 'b'}, {2, 'c'}, {0, 'd'}, {1, 'e'}};
  const auto larger = [](const auto& a, const auto& b) { return a.first > b.first; };
  sort_few(few.begin(), few.end(), larger);
  CHECK(few == std::vector<std::pair<int, char>>{{2, 'a'}, {2, 'c'}, {1, 'b'}, {1, 'e'}, {0, 'd'}});
  sort_few(few.begin(), few.begin(), larger);
  CHECK(few.front().second == 'a');
}

TEST_CASE("SmallVector: inside and on the heap") {
  SmallVector<int, 3> v;
  CHECK(v.empty());
  const int* inside = v.data();
  for (int i = 0; i < 3; ++i) v.push_back(i);
  CHECK(v.data() == inside);
  for (int i = 3; i < 10; ++i) v.push_back(i);
  CHECK(v.data() != inside);
  CHECK(v.size() == 10);
  CHECK((v.front() == 0 && v.back() == 9));
  v.pop_back();
  v.erase(0);
  v.insert(2, 77);
  CHECK(v == SmallVector<int, 3>{1, 2, 77, 3, 4, 5, 6, 7, 8});
  v.insert(v.size(), 9);
  CHECK(v.back() == 9);
  v.clear();
  v.resize(4, 5);
  CHECK(v == SmallVector<int, 3>{5, 5, 5, 5});
  v.resize(1);
  CHECK(v == SmallVector<int, 3>{5});
}

TEST_CASE("SmallVector: copies are copies, moves leave an empty vector that can be used") {
  for (std::size_t count : {2, 20}) {
    SmallVector<std::int64_t, 4> original(count, 3);
    SmallVector<std::int64_t, 4> copy = original;
    copy[0] = 9;
    CHECK(original[0] == 3);
    CHECK_FALSE(copy == original);
    SmallVector<std::int64_t, 4> moved = std::move(original);
    CHECK(moved == SmallVector<std::int64_t, 4>(count, 3));
    CHECK(original.empty());
    for (int i = 0; i < 9; ++i) original.push_back(i);
    CHECK(original.size() == 9);
    CHECK(original.back() == 8);
    copy = moved;
    CHECK(copy == moved);
    const auto* self = &copy;
    copy = *self;
    CHECK(copy == moved);
    moved = SmallVector<std::int64_t, 4>{1, 2};
    CHECK(moved.size() == 2);
    copy = std::move(moved);
    CHECK(copy == SmallVector<std::int64_t, 4>{1, 2});
    std::span<const std::int64_t> view = copy;
    CHECK(view.size() == 2);
  }
}

TEST_CASE("SmallVector: a moved-from heap vector does not think it still has room") {
  SmallVector<int, 2> v;
  for (int i = 0; i < 8; ++i) v.push_back(i);
  SmallVector<int, 2> other = std::move(v);
  for (int i = 0; i < 8; ++i) v.push_back(i * 2);
  CHECK(v[7] == 14);
  CHECK(other[7] == 7);
  v = std::move(other);
  CHECK(v[7] == 7);
}

namespace {
struct Counted : RefCounted<Counted> {
  explicit Counted(int& destroyed) : destroyed(destroyed) {}
  static void destroy(Counted* object) {
    ++object->destroyed;
    delete object;
  }
  int& destroyed;
};
}  // namespace

TEST_CASE("Ref: the last one destroys") {
  int destroyed = 0;
  {
    Ref<Counted> a = Ref<Counted>::adopt(new Counted(destroyed));
    CHECK(a->use_count() == 1);
    Ref<Counted> b = a;
    CHECK(a->use_count() == 2);
    CHECK(a == b);
    Ref<Counted> moved = std::move(b);
    CHECK(a->use_count() == 2);
    CHECK(b == nullptr);
    CHECK_FALSE(b);
    Ref<Counted>& itself = a;
    a = itself;
    a = nullptr;
    CHECK(moved->use_count() == 1);
    Ref<Counted> shared = Ref<Counted>::share(moved.get());
    CHECK(moved->use_count() == 2);
    Counted* raw = shared.detach();
    CHECK(raw->use_count() == 2);
    raw->release();
    CHECK(destroyed == 0);
  }
  CHECK(destroyed == 1);
}

TEST_CASE("Ref: counted across threads") {
  int destroyed = 0;
  Ref<Counted> a = Ref<Counted>::adopt(new Counted(destroyed));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([a] {
      for (int i = 0; i < 10000; ++i) Ref<Counted> copy = a;
    });
  for (auto& thread : threads) thread.join();
  threads.clear();
  CHECK(a->use_count() == 1);
  a = nullptr;
  CHECK(destroyed == 1);
}

TEST_CASE("Optional: set, unset, moved, compared, and converted from and to std::optional") {
  Optional<std::string> name;
  CHECK_FALSE(name.has_value());
  CHECK(name == std::nullopt);
  CHECK(name.value_or("none") == "none");
  CHECK_THROWS_AS(name.value(), std::bad_optional_access);
  name = "a name that is too long for a string's own memory";
  REQUIRE(name);
  CHECK(name->starts_with("a name"));
  const Optional<std::string> copy = name;
  Optional<std::string> moved = std::move(name);
  CHECK(copy == moved);
  const Optional<std::string>& itself = moved;
  moved = itself;
  CHECK(copy == moved);
  moved = {};
  CHECK_FALSE(copy == moved);
  moved = std::optional<std::string>("b");
  CHECK(moved == "b");
  const std::optional<std::string> other = copy;
  CHECK(other == *copy);
  moved = std::optional<std::string>();
  CHECK_FALSE(moved);
  const std::optional<std::string> unset = moved;
  CHECK_FALSE(unset);

  const auto counted = std::make_shared<int>(1);
  {
    Optional<std::shared_ptr<int>> a = counted, b = a;
    CHECK(counted.use_count() == 3);
    a = b;
    a.emplace(counted);
    CHECK(counted.use_count() == 3);
    b.reset();
    CHECK(counted.use_count() == 2);
    b = std::move(a);
    CHECK(counted.use_count() == 2);
    CHECK(a);  // moved from, still set, as std::optional
  }
  CHECK(counted.use_count() == 1);
  Optional<std::pair<double, double>> range;
  range = {1, 2};
  REQUIRE(range);
  CHECK(range->second == 2);
  range = {};
  CHECK_FALSE(range);
  Optional<int> count = 2;
  count = {};
  CHECK_FALSE(count);
  count = 3;
  CHECK(count == 3);
  const Optional<bool> is_false = false, is_unset;
  CHECK(std::optional<bool>(is_false) == false);
  CHECK(std::optional<bool>(is_unset) == std::nullopt);
  static_assert(!std::is_constructible_v<bool, Optional<bool>>);
  constexpr Optional<double> number = 3;
  static_assert(*number == 3 && number.has_value());
}

TEST_CASE("Hasher: order, lengths and values count") {
  constexpr Hash128 fixed = Hasher{}.add(std::uint64_t{1}).add(std::string_view("exp")).finish();
  CHECK(fixed == Hasher{}.add(std::uint64_t{1}).add(std::string_view("exp")).finish());
  const auto words = [](std::initializer_list<std::uint64_t> list) {
    Hasher h;
    for (std::uint64_t word : list) h.add(word);
    return h.finish();
  };
  CHECK_FALSE(words({1, 2}) == words({2, 1}));
  CHECK_FALSE(words({}) == words({0}));
  CHECK_FALSE(words({0}) == words({0, 0}));
  const auto texts = [](std::string_view a, std::string_view b) { return Hasher{}.add(a).add(b).finish(); };
  CHECK_FALSE(texts("ab", "c") == texts("a", "bc"));
  CHECK_FALSE(texts("12345678", "") == texts("1234567", "8"));
  CHECK_FALSE(Hasher{}.add(0.0).finish() == Hasher{}.add(-0.0).finish());
}

TEST_CASE("Hasher: a hundred thousand short keys do not collide in either half") {
  std::set<std::uint64_t> low, high;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const Hash128 hash = Hasher{}.add(i % 317).add(i / 317).finish();
    low.insert(hash.low);
    high.insert(hash.high);
  }
  CHECK(low.size() == 100000);
  CHECK(high.size() == 100000);
}
