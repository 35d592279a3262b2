#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace engine::kernels {

/// Bounded map of shared values that forgets the least recently used entry. Thread safe. A value that was handed out
/// lives on with its holders after it has been forgotten.
template <typename Key, typename Value, typename Hash>
class LruCache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  /// The value of the key, made by make() (Key -> std::shared_ptr<const Value>) at the first request. Other requests
  /// wait while a value is made, so that none is made twice.
  template <typename Make>
  std::shared_ptr<const Value> get(const Key& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    if (const auto found = index_.find(key); found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
    entries_.emplace_front(key, make(key));
    index_[key] = entries_.begin();
    if (entries_.size() > capacity_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    return entries_.front().second;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  using Entry = std::pair<Key, std::shared_ptr<const Value>>;
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> index_;
};

}  // namespace engine::kernels
