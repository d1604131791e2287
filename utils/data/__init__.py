"""Data sets, and the order in which a run takes its examples."""

from utils.data.datasets import (
    IGNORE,
    STAND_IN_TEST,
    STAND_IN_TRAIN,
    TensorData,
    TokenFile,
    Windows,
    encode,
    fashion_mnist,
    fashion_mnist_files,
    pixel_statistics,
    read_idx,
    read_images,
    shakespeare,
    spiral,
    split_indices,
    text_file,
    tiny_shakespeare,
)
