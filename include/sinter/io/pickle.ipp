// A stack machine for the opcodes of pickles that hold data.
#pragma once

#include <sinter/io/pickle.hpp>

#include <sinter/base/index.hpp>

#include <map>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

class PickleReader {
 public:
  PickleReader(const Source& source, std::uint64_t offset, std::uint64_t bytes)
      : source_(source), offset_(offset), text_(source.text(offset, bytes)) {}

  Pickle read() {
    for (;;) {
      const char code = take(1)[0];
      if (code == '.') break;
      if (!run_number(code) && !run_container(code) && !run_reference(code))
        fail("opcode " + std::to_string(static_cast<unsigned char>(code)) + " of pickle, which holds no tensors");
    }
    out_.root = pop();
    return std::move(out_);
  }

 private:
  using Kind = PickleItem::Kind;

  [[noreturn]] void fail(std::string_view what) const {
    source_.fail(offset_ + at_, what,
                 "save tensors, dicts, lists and numbers alone: torch.save(model.state_dict(), path)");
  }
  std::string_view take(std::uint64_t bytes) {
    if (bytes > text_.size() - at_) fail("the pickle ends here");
    const std::string_view out = text_.substr(at_, static_cast<std::size_t>(bytes));
    at_ += out.size();
    return out;
  }
  std::uint64_t take_number(int width) { return read_number(take(as_index(width)), 0, width); }
  std::string take_line() {
    const auto end = text_.find('\n', at_);
    if (end == std::string_view::npos) fail("a line without an end");
    std::string line(text_.substr(at_, end - at_));
    at_ = end + 1;
    return line;
  }

  PickleItem& push(Kind kind) {
    PickleItem& item = out_.items.emplace_back();
    item.kind = kind;
    stack_.push_back(&item);
    return item;
  }
  void push_integer(std::int64_t value) { push(Kind::integer).integer = value; }
  PickleItem* pop() {
    PickleItem* item = top();
    stack_.pop_back();
    return item;
  }
  PickleItem* top() const {
    if (stack_.empty() || stack_.back()->kind == Kind::mark) fail("an object is missing");
    return stack_.back();
  }
  /// The objects down to the mark.
  std::vector<const PickleItem*> pop_to_mark() {
    std::size_t begin = stack_.size();
    while (begin > 0 && stack_[begin - 1]->kind != Kind::mark) --begin;
    if (begin == 0) fail("a mark is missing");
    std::vector<const PickleItem*> items(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin - 1);
    return items;
  }
  void push_list(std::vector<const PickleItem*> parts) { push(Kind::list).parts = std::move(parts); }
  void push_tuple(std::size_t count) {
    std::vector<const PickleItem*> parts(count);
    while (count > 0) parts[--count] = pop();
    push_list(std::move(parts));
  }
  void append(Kind kind, const std::vector<const PickleItem*>& parts) {
    PickleItem* to = top();
    if (to->kind != kind || (kind == Kind::dict && parts.size() % 2 != 0)) fail("items for no container");
    to->parts.insert(to->parts.end(), parts.begin(), parts.end());
  }

  bool run_number(char code) {
    switch (code) {
      case '\x80': take(1); return true;  // PROTO
      case 'N':
      case '\x88':
      case '\x89': push(Kind::other); return true;  // NONE, NEWTRUE, NEWFALSE
      case 'G':
        take(8);
        push(Kind::other);
        return true;                                                                   // BINFLOAT
      case 'K': push_integer(static_cast<std::int64_t>(take_number(1))); return true;  // BININT1
      case 'M': push_integer(static_cast<std::int64_t>(take_number(2))); return true;  // BININT2
      case 'J': push_integer(static_cast<std::int32_t>(take_number(4))); return true;  // BININT
      case '\x8a': run_long(); return true;                                            // LONG1
      case 'X': {                                                                      // BINUNICODE
        const std::uint64_t bytes = take_number(4);
        push(Kind::text).text = take(bytes);
        return true;
      }
      default: return false;
    }
  }
  void run_long() {
    const auto width = static_cast<int>(take_number(1));
    const std::string_view bytes = take(as_index(width));
    if (width == 0 || width > 8) {
      push(Kind::other);  // 0, or beyond 64 bits: no extent is
      return;
    }
    const int unused = 64 - 8 * width;
    push_integer(static_cast<std::int64_t>(read_number(bytes, 0, width) << unused) >> unused);
  }
  bool run_container(char code) {
    switch (code) {
      case '(': push(Kind::mark); return true;
      case ')':
      case ']': push(Kind::list); return true;          // EMPTY_TUPLE, EMPTY_LIST
      case '}': push(Kind::dict); return true;          // EMPTY_DICT
      case 't': push_list(pop_to_mark()); return true;  // TUPLE
      case '\x85': push_tuple(1); return true;
      case '\x86': push_tuple(2); return true;
      case '\x87': push_tuple(3); return true;
      case 'e': append(Kind::list, pop_to_mark()); return true;  // APPENDS
      case 'u': append(Kind::dict, pop_to_mark()); return true;  // SETITEMS
      case 'a': {                                                // APPEND
        const PickleItem* item = pop();
        append(Kind::list, {item});
        return true;
      }
      case 's': {  // SETITEM
        const PickleItem* value = pop();
        const PickleItem* key = pop();
        append(Kind::dict, {key, value});
        return true;
      }
      default: return false;
    }
  }
  bool run_reference(char code) {
    switch (code) {
      case 'q': memo_[take_number(1)] = top(); return true;  // BINPUT
      case 'r': memo_[take_number(4)] = top(); return true;  // LONG_BINPUT
      case 'h': get(take_number(1)); return true;            // BINGET
      case 'j': get(take_number(4)); return true;            // LONG_BINGET
      case 'c': {                                            // GLOBAL
        const std::string module = take_line();
        push(Kind::global).text = module + " " + take_line();
        return true;
      }
      case 'Q': {  // BINPERSID
        const PickleItem* id = pop();
        push(Kind::persistent).parts = {id};
        return true;
      }
      case 'R': run_call(); return true;  // REDUCE
      case 'b':                           // BUILD: attributes of an OrderedDict, which hold no tensors
        pop();
        if (top()->kind != Kind::dict) fail("attributes of an object that is no dict");
        return true;
      default: return false;
    }
  }
  void get(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) fail("object " + std::to_string(number) + " is not there");
    stack_.push_back(found->second);
  }
  void run_call() {
    const PickleItem* arguments = pop();
    const PickleItem* function = pop();
    if (function->kind != Kind::global || arguments->kind != Kind::list) fail("a call of no function");
    if (function->text == "collections OrderedDict") {
      if (!arguments->parts.empty()) fail("an OrderedDict with arguments");
      push(Kind::dict);
    } else if (function->text == "torch._utils _rebuild_tensor_v2" ||
               function->text == "torch._utils _rebuild_tensor_v3" ||
               function->text == "torch._utils _rebuild_parameter") {
      push(Kind::call).parts = {function, arguments};
    } else {
      fail("a call of " + function->text + ", which makes no tensor");
    }
  }

  const Source& source_;
  std::uint64_t offset_;
  std::string_view text_;
  std::size_t at_ = 0;
  Pickle out_;
  std::vector<PickleItem*> stack_;
  std::map<std::uint64_t, PickleItem*> memo_;
};

SINTER_DECL Pickle read_pickle(const Source& source, std::uint64_t offset, std::uint64_t bytes) {
  return PickleReader(source, offset, bytes).read();
}

}  // namespace io::io_detail
SINTER_NAMESPACE_END
