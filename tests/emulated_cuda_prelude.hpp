// What CUDA C needs in order to be compiled as C++ and run on the processor: a block's threads are fibers.
#pragma once

namespace sinter_test {

inline constexpr const char* emulated_cuda_prelude = R"(
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>
#ifndef WARPS_LAG
#define WARPS_LAG 0
#endif
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#ifndef CLUSTER
#define CLUSTER 1
#endif
#define __cluster_dims__(...)
#ifndef IN_STEP
#define IN_STEP 1
#endif
#if CLUSTER > 1   // a block of a cluster has a thread of the processor, and what it shares is that thread's
#include <condition_variable>
#include <mutex>
#include <thread>
#define LOCAL static thread_local
#else
#define LOCAL static
#endif
#define __shared__ LOCAL
struct Dim3 { unsigned x = 0, y = 0, z = 0; };
LOCAL Dim3 threadIdx, blockIdx, blockDim, gridDim;
namespace emulated {
constexpr std::size_t stack_bytes = 65536;
struct Fiber { jmp_buf place; ucontext_t start; std::unique_ptr<char[]> stack; bool has_started; };
LOCAL jmp_buf scheduler;
LOCAL std::vector<Fiber> fibers;   // one for each thread of a block; the next block takes the same ones
LOCAL std::vector<char> is_done, waits_for_block;
LOCAL std::vector<unsigned> late;   // of each warp: steps until it goes on
LOCAL std::vector<std::uint64_t> slots;
alignas(1024) LOCAL unsigned char dynamic_memory[227 * 1024];
struct Copy { void* to; const void* from; int bytes; bool is_inside; };
LOCAL std::vector<std::vector<std::vector<Copy>>> copies;   // of each thread: groups, the last one open
struct Fragment { double a[4], b[2]; };
LOCAL std::vector<Fragment> fragments[2];   // of each thread; taken in turns
LOCAL std::vector<int> turns;
struct Meeting { unsigned arrived, number; };
LOCAL Meeting meetings[16];   // named barriers
LOCAL void (*kernel)(const void*);
LOCAL const void* parameters;
enum class Scope { warp, block };
static void yield(Scope scope = Scope::warp) {
  const unsigned own = threadIdx.x;
  waits_for_block[own] = scope == Scope::block;
  if (_setjmp(fibers[own].place) == 0) _longjmp(scheduler, 1);
  threadIdx.x = own;
}
static void enter() {
  const unsigned own = threadIdx.x;
  for (;;) {
    kernel(parameters);
    is_done[own] = 1;
    if (_setjmp(fibers[own].place) == 0) _longjmp(scheduler, 1);
    threadIdx.x = own;
  }
}
__attribute__((noinline)) static void step(unsigned thread) {   // to its next barrier, shuffle or end
  threadIdx.x = thread;
  if (_setjmp(scheduler) != 0) return;
  if (fibers[thread].has_started) _longjmp(fibers[thread].place, 1);
  fibers[thread].has_started = true;
  setcontext(&fibers[thread].start);
}
static void make_fibers(unsigned threads) {
  while (fibers.size() < threads) {
    fibers.emplace_back();
    fibers.back().stack.reset(new char[stack_bytes]);
  }
  for (Fiber& fiber : fibers) {
    if (fiber.has_started) continue;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.get();
    fiber.start.uc_stack.ss_size = stack_bytes;
    fiber.start.uc_link = nullptr;   // it never ends
    makecontext(&fiber.start, enter, 0);
  }
}
#if CLUSTER > 1
static std::mutex mutex;
static std::condition_variable all_are_there;
static unsigned there, round;
static char* shared_of[CLUSTER];   // where the blocks have `marker`
LOCAL char marker;
LOCAL std::vector<char> has_arrived;
LOCAL bool waits_for_cluster;
static void meet() {
  std::unique_lock<std::mutex> lock(mutex);
  const unsigned own = round;
  if (++there == CLUSTER) there = 0, ++round, all_are_there.notify_all();
  else all_are_there.wait(lock, [&] { return round != own; });
}
#endif
static void run_block(unsigned threads, unsigned dynamic_bytes) {
  is_done.assign(threads, 0);
  std::memset(dynamic_memory, 0xFF, dynamic_bytes);   // NaN
  copies.assign(threads, {{}}), turns.assign(threads, 0);
  std::memset(meetings, 0, sizeof meetings);
  waits_for_block.assign(threads, 1), late.resize((threads + 31) / 32);
#if CLUSTER > 1
  has_arrived.assign(threads, 0);
#endif
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
#if CLUSTER > 1
    if (waits_for_cluster) waits_for_cluster = false, meet();
#endif
    for (unsigned w = 0; w < late.size(); ++w) late[w] = WARPS_LAG ? w : 0;
    for (unsigned t = 0; t < threads; ++t) waits_for_block[t] = 0, goes_on |= !is_done[t];
    for (bool has_stepped = true; has_stepped;) {   // until all wait for the block
      has_stepped = false;
      for (unsigned t = 0; t < threads; ++t) {
        if (t % 32 == 0 && late[t / 32] > 0) {
          --late[t / 32], t += 31, has_stepped = true;
          continue;
        }
        if (is_done[t] || waits_for_block[t]) continue;
        step(t);
        has_stepped = true;
      }
    }
  }
}
}
static void launch_as(unsigned rank, void (*kernel)(const void*), const void* parameters, const unsigned* grid,
                      unsigned threads, unsigned dynamic_bytes) {
  emulated::make_fibers(threads);
  emulated::slots.resize((threads + 31) / 32 * 32);
  emulated::fragments[0].resize(threads);
  emulated::fragments[1].resize(threads);
  emulated::kernel = kernel;
  emulated::parameters = parameters;
  blockDim = {threads, 1, 1};
  gridDim = {grid[0], grid[1], grid[2]};
  for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
      for (blockIdx.x = rank; blockIdx.x < grid[0]; blockIdx.x += CLUSTER) emulated::run_block(threads, dynamic_bytes);
}
extern "C" void emulated_launch(void (*kernel)(const void*), const void* parameters, const unsigned* grid,
                                unsigned threads, unsigned dynamic_bytes) {
#if CLUSTER > 1
  if (IN_STEP && grid[0] % CLUSTER != 0) std::abort();
  std::vector<std::thread> blocks;
  for (unsigned rank = 0; rank < CLUSTER; ++rank)
    blocks.emplace_back([=] {
      emulated::shared_of[rank] = &emulated::marker;
      emulated::meet();
      launch_as(rank, kernel, parameters, grid, threads, dynamic_bytes);
    });
  for (std::thread& block : blocks) block.join();
#else
  launch_as(0, kernel, parameters, grid, threads, dynamic_bytes);
#endif
}
#if CLUSTER > 1
static void cluster_arrive() {
  if (emulated::has_arrived[threadIdx.x]++) std::abort();
}
static void cluster_wait() {
  if (!emulated::has_arrived[threadIdx.x]--) std::abort();
  emulated::waits_for_cluster = true;
  emulated::yield(emulated::Scope::block);
}
static unsigned long long read_word(const unsigned long long* p) {
  std::this_thread::yield();
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static void send_word(unsigned long long* p, unsigned row, unsigned number) {
  __atomic_store_n(p, (unsigned long long)row << 32 | number, __ATOMIC_RELEASE);
}
template <class P> static P read_once(const P* p) { return *p; }
template <class P> static void write_once(P* p, P value) { *p = value; }
template <class T> static void put_in_block(int block, T* place, T value) {
  *reinterpret_cast<T*>(emulated::shared_of[block] + (reinterpret_cast<char*>(place) - &emulated::marker)) = value;
}
#endif
#define __syncthreads() emulated::yield(emulated::Scope::block)
#define __syncwarp() emulated::yield()
template <class T> static T __shfl_xor_sync(unsigned, T value, int mask) {
  const unsigned own = threadIdx.x;
  std::memcpy(&emulated::slots[own], &value, sizeof value);
  emulated::yield();
  T other;
  std::memcpy(&other, &emulated::slots[own ^ static_cast<unsigned>(mask)], sizeof other);
  emulated::yield();
  return other;
}
template <class T> static T __shfl_sync(unsigned, T value, int lane) {
  const unsigned own = threadIdx.x;
  std::memcpy(&emulated::slots[own], &value, sizeof value);
  emulated::yield();
  T other;
  std::memcpy(&other, &emulated::slots[own / 32 * 32 + static_cast<unsigned>(lane)], sizeof other);
  emulated::yield();
  return other;
}
template <class T> static T __shfl_up_sync(unsigned, T value, int distance) {
  const unsigned own = threadIdx.x, from = own % 32 >= static_cast<unsigned>(distance) ? own - distance : own;
  std::memcpy(&emulated::slots[own], &value, sizeof value);
  emulated::yield();
  T other;
  std::memcpy(&other, &emulated::slots[from], sizeof other);
  emulated::yield();
  return other;
}
static unsigned __ballot_sync(unsigned, bool holds) {
  const unsigned first = threadIdx.x / 32 * 32;
  std::memcpy(&emulated::slots[threadIdx.x], &holds, sizeof holds);
  emulated::yield();
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    bool other;
    std::memcpy(&other, &emulated::slots[first + lane], sizeof other);
    ballot |= static_cast<unsigned>(other) << lane;
  }
  emulated::yield();
  return ballot;
}
static unsigned __match_any_sync(unsigned, unsigned value) {
  const unsigned first = threadIdx.x / 32 * 32;
  std::memcpy(&emulated::slots[threadIdx.x], &value, sizeof value);
  emulated::yield();
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned other;
    std::memcpy(&other, &emulated::slots[first + lane], sizeof other);
    same |= static_cast<unsigned>(other == value) << lane;
  }
  emulated::yield();
  return same;
}
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __ffs(int x) { return __builtin_ffs(x); }
template <class T> static T atomicAdd(T* place, T value) {
  const T old = *place;
  *place = static_cast<T>(static_cast<unsigned long long>(old) + static_cast<unsigned long long>(value));
  return old;
}
template <class T> static T atomicMin(T* place, T value) {
  const T old = *place;
  if (value < old) *place = value;
  return old;
}
template <class T> static T atomicMax(T* place, T value) {
  const T old = *place;
  if (value > old) *place = value;
  return old;
}
template <class To, class From> static To bits_as(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }
static inline float __int_as_float(int bits) { return bits_as<float>(bits); }
static inline double __longlong_as_double(long long bits) { return bits_as<double>(bits); }
static inline float about_reciprocal(float x) { return 1 / x; }
static inline float power_of_2(float x) { return exp2f(x); }
static inline unsigned short float_to_brain(float x) {
  const unsigned bits = bits_as<unsigned>(x);
  return static_cast<unsigned short>(x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline float half_to_float(unsigned short bits) {
  const unsigned sign = unsigned{bits & 0x8000u} << 16, size = bits & 0x7fffu;
  if (size >= 0x7c00) return bits_as<float>(sign | 0x7f800000u | (size & 0x3ff) << 13);
  return bits_as<float>(sign | bits_as<unsigned>(bits_as<float>(size << 13) * 0x1p112f));
}
static inline unsigned short float_to_half(float x) {
  const unsigned sign = bits_as<unsigned>(x) >> 16 & 0x8000u;
  const float size = std::fabs(x);
  if (size != size) return static_cast<unsigned short>(sign | 0x7e00u);
  if (size >= 65520 || size == 0) return static_cast<unsigned short>(size == 0 ? sign : sign | 0x7c00u);
  int exponent = 0;
  std::frexp(size, &exponent);
  const int place = exponent < -13 ? -24 : exponent - 11;
  const double steps = std::nearbyint(std::ldexp(static_cast<double>(size), -place));
  // Steps count from the exponent's first number; one too many is the next exponent's first.
  const unsigned bits = exponent < -13 ? static_cast<unsigned>(steps)
                                       : (static_cast<unsigned>(exponent + 13) << 10) + static_cast<unsigned>(steps);
  return static_cast<unsigned short>(sign | bits);
}
static inline float __uint_as_float(unsigned bits) { return bits_as<float>(bits); }
static inline int __float_as_int(float x) { return bits_as<int>(x); }
static inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
static inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}
static inline unsigned long long atomicCAS(unsigned long long* place, unsigned long long expected,
                                           unsigned long long wanted) {
  const unsigned long long old = *place;
  if (old == expected) *place = wanted;
  return old;
}
static inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static unsigned char* dynamic_shared() { return emulated::dynamic_memory; }
// Copies are made when they are waited for, as late as a GPU may.
template <int bytes> static void copy_async(void* to, const void* from, bool is_inside) {
  emulated::copies[threadIdx.x].back().push_back({to, from, bytes, is_inside});
}
static void copy_async_commit() { emulated::copies[threadIdx.x].emplace_back(); }
template <int pending> static void copy_async_wait() {
  auto& groups = emulated::copies[threadIdx.x];
  while (groups.size() > static_cast<std::size_t>(pending) + 1) {   // the open group is none
    for (const emulated::Copy& copy : groups.front()) {
      if (reinterpret_cast<std::uintptr_t>(copy.to) % copy.bytes != 0) std::abort();
      if (copy.is_inside && reinterpret_cast<std::uintptr_t>(copy.from) % copy.bytes != 0) std::abort();
      if (copy.is_inside) std::memcpy(copy.to, copy.from, copy.bytes);
      else std::memset(copy.to, 0, copy.bytes);
    }
    groups.erase(groups.begin());
  }
}
static float to_tf32(float x) {
  if (x != x) return bits_as<float>(0x7fffffffu);
  return std::isinf(x) ? x : bits_as<float>((bits_as<unsigned>(x) + 0x1000u) & 0xffffe000u);
}
// The fragments of m16n8k8 (PTX ISA, "Matrix Fragments for mma.m16n8k8"), f64's too: lane 4 g + t holds a0 (g, t), a1
// (g + 8, t), a2 (g, t + 4), a3 (g + 8, t + 4), b0 (t, g), b1 (t + 4, g), c0 (g, 2 t), c1 (g, 2 t + 1), c2 and c3 the
// same of row g + 8.
template <class T, class Add> static void mma(T (&c)[4], const emulated::Fragment& own, Add add) {
  auto& fragments = emulated::fragments[emulated::turns[threadIdx.x]++ % 2];
  const unsigned warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  fragments[threadIdx.x] = own;
  emulated::yield();
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double a[8], b[8];
    for (unsigned k = 0; k < 8; ++k) {
      a[k] = fragments[warp + row % 8 * 4 + k % 4].a[row / 8 + k / 4 * 2];
      b[k] = fragments[warp + column * 4 + k % 4].b[k / 4];
    }
    c[i] = add(c[i], a, b);
  }
}
// ldmatrix .x4: lane i gives the address of row i % 8 of matrix i / 8, and gets word i % 4 of row i / 4 of each matrix.
static void read_matrices(float (&r)[4], const float* row) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) std::abort();
  static std::vector<const float*> given[2];
  const int turn = emulated::turns[threadIdx.x]++ % 2;
  given[turn].resize(1024);
  given[turn][threadIdx.x] = row;
  emulated::yield();
  const unsigned warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) r[i] = given[turn][warp + i * 8 + lane / 4][lane % 4];
}
static double tf32_operand(float x) {   // what is no TF32 number must not get here
  if (std::isfinite(x) && (bits_as<unsigned>(x) & 0x1fffu) != 0) std::abort();
  return x;
}
static void mma_tf32(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
  mma(c,
      {{tf32_operand(a[0]), tf32_operand(a[1]), tf32_operand(a[2]), tf32_operand(a[3])},
       {tf32_operand(b[0]), tf32_operand(b[1])}},
      [](float sum, const double* a, const double* b) {
    double exact = sum;
    for (int k = 0; k < 8; ++k) exact += a[k] * b[k];
    const float nearest = static_cast<float>(exact);   // towards zero, as tensor cores add
    return std::fabs(nearest) > std::fabs(exact) && std::isfinite(nearest) ? std::nextafter(nearest, 0.0f) : nearest;
  });
}
// The fragments of m16n8k16: words of two elements; lane 4 g + t holds a0 (g, 2 t ..), a1 (g + 8, 2 t ..), a2 (g, 2 t +
// 8 ..), a3 (g + 8, 2 t + 8 ..), b0 (2 t .., g), b1 (2 t + 8 .., g), c as above.
struct WordFragment { unsigned a[4], b[2]; };
template <class Wide> static void mma_words(float (&c)[4], const WordFragment& own, Wide wide) {
  static std::vector<WordFragment> given[2];
  auto& fragments = given[emulated::turns[threadIdx.x]++ % 2];
  fragments.resize(1024);
  const unsigned warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  fragments[threadIdx.x] = own;
  emulated::yield();
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double exact = c[i];
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned a = fragments[warp + row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2],
                     b = fragments[warp + column * 4 + k % 8 / 2].b[k / 8], shift = k % 2 * 16;
      exact += static_cast<double>(wide(static_cast<unsigned short>(a >> shift))) *
               wide(static_cast<unsigned short>(b >> shift));
    }
    c[i] = static_cast<float>(exact);
  }
}
static void mma_f16(float (&c)[4], const unsigned (&a)[4], unsigned b, unsigned d) {
  mma_words(c, {{a[0], a[1], a[2], a[3]}, {b, d}}, half_to_float);
}
static float brain_to_float(unsigned short bits) { return bits_as<float>(static_cast<unsigned>(bits) << 16); }
static void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b, unsigned d) {
  mma_words(c, {{a[0], a[1], a[2], a[3]}, {b, d}}, brain_to_float);
}
static unsigned pack_f16(float low, float high) { return float_to_half(low) | unsigned{float_to_half(high)} << 16; }
static unsigned pack_bf16(float low, float high) {
  const auto bits = [](float x) {
    const unsigned all = bits_as<unsigned>(x);
    return x != x ? (all >> 16 | 0x40u) : (all + 0x7fffu + (all >> 16 & 1u)) >> 16;
  };
  return bits(low) | bits(high) << 16;
}
static float exp2_fast(float x) { return std::exp2(x); }
static void read_stream(unsigned (&r)[4], const void* from) { std::memcpy(r, from, sizeof r); }
static void read_words(unsigned (&r)[4], const void* row) {
  float words[4];
  read_matrices(words, static_cast<const float*>(row));
  std::memcpy(r, words, sizeof words);
}
// The same across: lane i gets elements 2 (i % 4) and the next of column i / 4 of matrices of 16 bits.
static void read_words_across(unsigned (&r)[4], const void* row) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) std::abort();
  static std::vector<const unsigned short*> given[2];
  auto& rows = given[emulated::turns[threadIdx.x]++ % 2];
  rows.resize(1024);
  rows[threadIdx.x] = static_cast<const unsigned short*>(row);
  emulated::yield();
  const unsigned warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned first = warp + i * 8 + lane % 4 * 2;
    r[i] = rows[first][lane / 4] | unsigned{rows[first + 1][lane / 4]} << 16;
  }
}
// Products of 64 rows by four warps, which read swizzled memory: rows of 128 bytes, vector v of row r at v ^ r % 8.
#define __cvta_generic_to_shared(at) reinterpret_cast<std::uintptr_t>(at)
static void group_fence() {}
static void group_commit() {}
template <int pending> static void group_wait_for() { emulated::yield(); }
static void group_sees_shared() {}
static void settle_one(float&) {}
static void give_registers() {}
static void take_registers() {}
static bool is_last_to_meet(int which, int threads) {
  emulated::Meeting& meeting = emulated::meetings[which];
  if (++meeting.arrived < static_cast<unsigned>(threads)) return false;
  meeting.arrived = 0, ++meeting.number;
  return true;
}
static void call_next(int which, int threads) { is_last_to_meet(which, threads); }
static void meet(int which, int threads) {
  const unsigned number = emulated::meetings[which].number;
  is_last_to_meet(which, threads);
  do emulated::yield();
  while (emulated::meetings[which].number == number);
}
// Barriers in shared memory: of a phase's arrivals those that are missing, and how many phases are complete.
struct PhaseBarrier { unsigned short count, missing; unsigned phases; };
static void barrier_begin(unsigned char* at, int count) {
  const auto all = static_cast<unsigned short>(count);
  const PhaseBarrier barrier{all, all, 0};
  std::memcpy(at, &barrier, sizeof barrier);
}
static void barrier_arrive(unsigned char* at) {
  auto* const barrier = reinterpret_cast<PhaseBarrier*>(at);
  if (--barrier->missing == 0) barrier->missing = barrier->count, ++barrier->phases;
}
static void barrier_wait(unsigned char* at, int turn) {
  while (static_cast<int>(reinterpret_cast<PhaseBarrier*>(at)->phases % 2) == turn) emulated::yield();
}
static void copy_async_arrive(unsigned char* at) {   // once what this thread has begun to copy is there
  copy_async_commit();
  copy_async_wait<0>();
  barrier_arrive(at);
}
// A place in shared memory in units of 16 bytes, and how many units pieces of 64 columns are apart.
static unsigned place_of(const unsigned char* at, int apart) {
  return static_cast<unsigned>(at - emulated::dynamic_memory) >> 4 | static_cast<unsigned>(apart) << 16;
}
static const unsigned char* at_place(unsigned place) { return emulated::dynamic_memory + (place & 0x3fff) * 16; }
static float wide_16(unsigned short bits) {
#if IS_BRAIN
  return brain_to_float(bits);
#else
  return half_to_float(bits);
#endif
}
static float turned(const unsigned char* at) {
  const auto place = reinterpret_cast<std::uintptr_t>(at);
  return wide_16(*reinterpret_cast<const unsigned short*>(place ^ (place >> 7 & 7) << 4));
}
template <int N> static void multiply_more(float (&c)[N][4], unsigned a_place, unsigned b_place) {
  const unsigned char *const a = at_place(a_place), *const b = at_place(b_place);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  for (int n = 0; n < N; ++n)
    for (unsigned i = 0; i < 4; ++i) {
      double exact = c[n][i];
      for (int k = 0; k < 16; ++k)
        exact += static_cast<double>(turned(a + (warp * 16 + lane / 4 + i / 2 * 8) * 128 + k * 2)) *
                 turned(b + (n * 8 + lane % 4 * 2 + i % 2) * 128 + k * 2);
      c[n][i] = static_cast<float>(exact);
    }
}
template <int N> static void multiply_first(float (&c)[N][4], unsigned a, unsigned b) {
  for (auto& block : c)
    for (float& x : block) x = 0;
  multiply_more(c, a, b);
}
template <int N> static void multiply_kept(float (&c)[N][4], const unsigned (&a)[4], unsigned place) {
  const unsigned char* const b = at_place(place);
  struct Words { unsigned a[4]; };
  static std::vector<Words> given[2];
  auto& rows = given[emulated::turns[threadIdx.x]++ % 2];
  rows.resize(1024);
  std::memcpy(&rows[threadIdx.x], a, sizeof a);
  emulated::yield();
  const unsigned first = threadIdx.x / 4 * 4;
  for (int n = 0; n < N; ++n)
    for (unsigned i = 0; i < 4; ++i) {
      double exact = c[n][i];
      for (unsigned k = 0; k < 16; ++k) {
        const unsigned word = rows[first + k % 8 / 2].a[i / 2 + k / 8 * 2];
        exact += static_cast<double>(wide_16(static_cast<unsigned short>(word >> k % 2 * 16))) *
                 turned(b + k * 128 + n / 8 * (place >> 16) * 16 + (n % 8 * 8 + threadIdx.x % 4 * 2 + i % 2) * 2);
      }
      c[n][i] = static_cast<float>(exact);
    }
}
template <int N> static void multiply_kept_first(float (&c)[N][4], const unsigned (&a)[4], unsigned place) {
  for (auto& block : c)
    for (float& x : block) x = 0;
  multiply_kept(c, a, place);
}
static void mma_f64(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
  mma(c, {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, [](double sum, const double* a, const double* b) {
    for (int k = 0; k < 8; ++k) sum = std::fma(a[k], b[k], sum);
    return sum;
  });
}
)";

}  // namespace sinter_test
