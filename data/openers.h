#pragma once
// The sets behind open_dataset(), one function each; a new set adds one here and a row to the table in dataset.cpp.

#include <string>
#include <vector>

#include "data/dataset.h"

namespace engine::data {

DatasetPair open_samples(const DatasetOptions& options);
DatasetPair open_mnist(const DatasetOptions& options);
DatasetPair open_cifar10(const DatasetOptions& options);
DatasetPair open_cifar100(const DatasetOptions& options);
DatasetPair open_image_folder(const DatasetOptions& options);
DatasetPair open_synthetic(const DatasetOptions& options);

/// The folder of the bundled sets: that of the source tree, else ../share/engine/samples beside the program's folder.
/// Throws DataError where neither is there.
std::string samples_folder();

/// The classes of a set whose labels are numbers: the checkpoint's where options.classes holds some (DataError where it
/// has fewer than the data), else `own`.
std::vector<std::string> numbered_classes(const DatasetOptions& options, std::vector<std::string> own);

/// "a, b, c"
std::string joined(const std::vector<std::string>& words);

/// "0", "1", ... `count` - 1.
std::vector<std::string> number_names(int64_t count);

/// The start-up line: "KIND PATH: 10 classes, 60000 training and 10000 validation pictures, gray".
std::string summary_of(const DatasetOptions& options, const DatasetPair& pair);

}  // namespace engine::data
