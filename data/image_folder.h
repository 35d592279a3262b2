#pragma once
// Pictures in folders: PATH/train/CLASS/.../FILE and PATH/val/CLASS/.../FILE, as torchvision's ImageFolder.
//
// - Classes are the folders directly below the part, numbered in the order of their names' bytes. Names are bytes.
// - Pictures are the files below a class, at any depth, whose extension is a usual one of images in any case: jpg,
// jpeg,
//   jpe, jfif, png, bmp, and tif, tiff, webp, gif, ppm, pgm, which are refused by name when they are read.
// - Names that begin with a dot are never classes or pictures. They and all other files are counted as ignored.
// - Links to files and folders are followed; within a class a real folder is walked once, so that the walk ends. A link
//   to nothing is left out with a warning that names it.

#include <cstdint>
#include <string>
#include <vector>

namespace engine::data {

/// What a part holds. Paths of a class are sorted by folder, then by name, as bytes.
struct FolderScan {
  std::vector<std::string> classes;
  std::vector<std::string> paths;  // from the root on
  std::vector<int64_t> labels;     // indices of classes
  std::vector<int64_t> counts;     // pictures of each class
  int64_t ignored = 0;
};

/// Walks one part. Throws DataError where it is no folder or cannot be read.
FolderScan scan_folder(const std::string& root);

/// The classes of a part alone.
std::vector<std::string> folder_classes(const std::string& root);

}  // namespace engine::data
