#include "bench/flat_index.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace skippy::bench {

struct FlatIndex::Page {
  Digest key;
  Page* parent = nullptr;
  Pos begin = 0;
  std::uint32_t rows = 0;
  std::uint32_t children = 0;
  std::uint32_t pins = 0;
  bool hit = false;
  std::uint64_t tick = 0;
  std::unique_ptr<std::byte[]> payload;
  std::vector<std::uint32_t> rests;  // lengths of the shorter pages behind it, longest first
};

FlatIndex::Hit::~Hit() {
  for (Page* page : pages_) --page->pins;
}

bool FlatIndex::LeafOrder::operator()(const Page* a, const Page* b) const {
  return std::tuple(a->hit, a->tick, b->begin, a) < std::tuple(b->hit, b->tick, a->begin, b);
}

FlatIndex::FlatIndex(const FlatOptions& options)
    : options_(options), root_(std::make_unique<Page>()) {}
FlatIndex::~FlatIndex() = default;

Digest FlatIndex::KeyOf(const Page* parent, TokenSpan tokens) const {
  Blake3Hasher hasher;
  hasher.Update(std::as_bytes(std::span(parent->key.bytes)));
  hasher.Update(std::as_bytes(tokens));
  return hasher.Finish();
}

FlatIndex::Page* FlatIndex::Find(const Digest& key) {
  const auto it = pages_.find(key);
  return it == pages_.end() ? nullptr : &it->second;
}

void FlatIndex::Walk(TokenSpan tokens) {
  path_.clear();
  Page* last = root_.get();
  const auto step = [&](std::size_t count) {
    Page* next = Find(KeyOf(last, tokens.first(count)));
    if (next == nullptr) return false;
    path_.push_back(next);
    last = next;
    tokens = tokens.subspan(count);
    return true;
  };
  while (tokens.size() >= options_.page_tokens && step(options_.page_tokens)) {
  }
  for (const std::uint32_t rest : last->rests) {
    if (rest <= tokens.size() && step(rest)) return;
  }
}

void FlatIndex::Touch(bool hit) {
  ++tick_;
  for (Page* page : path_) {
    const bool leaf = page->children == 0;
    if (leaf) leaves_.erase(page);
    page->tick = tick_;
    if (hit && !page->hit) {
      page->hit = true;
      hit_rows_ += page->rows;
    }
    if (leaf) leaves_.insert(page);
  }
  Demote();
}

// What is in use at this very moment keeps its place.
void FlatIndex::Demote() {
  Page first;
  first.hit = true;
  first.begin = ~Pos{0};
  while (hit_rows_ > options_.cap_rows / 4 * 3) {
    const auto oldest = leaves_.lower_bound(&first);
    if (oldest == leaves_.end() || (*oldest)->tick == tick_) return;
    Page* leaf = *oldest;
    leaves_.erase(oldest);
    // With all before it that was last used with it, as a run of the radix tree.
    for (Page* page = leaf; page->hit && page->tick == leaf->tick; page = page->parent) {
      page->hit = false;
      hit_rows_ -= page->rows;
    }
    leaves_.insert(leaf);
  }
}

FlatIndex::Hit FlatIndex::Lookup(TokenSpan tokens, Pos max_boundary) {
  Walk(tokens);
  Hit hit;
  hit.rows_.reserve(path_.size());
  hit.pages_.reserve(path_.size());
  for (Page* page : path_) {
    const Pos end = std::min(page->begin + page->rows, max_boundary);
    if (end <= page->begin) break;
    hit.rows_.push_back({{page->payload.get(), page->rows * std::size_t{options_.row_bytes}},
                         page->rows,
                         0,
                         {page->begin, end}});
    hit.pages_.push_back(page);
    ++page->pins;
    hit.boundary_ = end;
  }
  if (hit.boundary_ > 0) Touch(true);
  return hit;
}

void FlatIndex::Evict(Page* page) {
  leaves_.erase(page);
  rows_ -= page->rows;
  evicted_rows_ += page->rows;
  if (page->hit) hit_rows_ -= page->rows;
  Page* parent = page->parent;
  if (page->rows < options_.page_tokens) std::erase(parent->rests, page->rows);
  if (--parent->children == 0 && parent != root_.get()) leaves_.insert(parent);
  pages_.erase(page->key);
}

bool FlatIndex::MakeRoom(std::uint64_t rows) {
  if (rows > options_.cap_rows) return false;
  auto it = leaves_.begin();
  while (rows_ + rows > options_.cap_rows) {
    while (it != leaves_.end() && ((*it)->pins > 0 || (*it)->tick == tick_)) ++it;
    if (it == leaves_.end()) return false;
    Evict(*it);
    it = leaves_.begin();
  }
  return true;
}

FlatIndex::Page* FlatIndex::Add(Page* parent, const Digest& key, Pos begin, std::uint32_t rows) {
  if (!MakeRoom(rows)) return nullptr;
  Page& page = pages_[key];
  page.key = key;
  page.parent = parent;
  page.begin = begin;
  page.rows = rows;
  page.tick = tick_;
  page.payload.reset(new std::byte[rows * std::size_t{options_.row_bytes}]);
  if (parent->children++ == 0 && parent != root_.get()) leaves_.erase(parent);
  if (rows < options_.page_tokens)
    parent->rests.insert(
        std::lower_bound(parent->rests.begin(), parent->rests.end(), rows, std::greater<>()), rows);
  leaves_.insert(&page);
  rows_ += rows;
  return &page;
}

void FlatIndex::Record(TokenSpan tokens) {
  Walk(tokens);
  Touch(false);
  // A shorter page on the way has nothing behind it: the whole page is made anew beside it.
  if (!path_.empty() && path_.back()->rows < options_.page_tokens) {
    if (path_.back()->begin + path_.back()->rows == tokens.size()) return;
    path_.pop_back();
  }
  Page* last = path_.empty() ? root_.get() : path_.back();
  Pos begin = last->begin + last->rows;
  while (begin < tokens.size() && last != nullptr) {
    const TokenSpan rest = tokens.subspan(begin);
    const TokenSpan part = rest.first(std::min<std::size_t>(rest.size(), options_.page_tokens));
    last = Add(last, KeyOf(last, part), begin, static_cast<std::uint32_t>(part.size()));
    begin += static_cast<Pos>(part.size());
  }
}

}  // namespace skippy::bench
