"""Mean and standard deviation per channel of well-known data, for values in [0, 1]."""

Statistics = tuple[float, ...]

CIFAR10: tuple[Statistics, Statistics] = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
CIFAR100: tuple[Statistics, Statistics] = ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
STL10: tuple[Statistics, Statistics] = ((0.4409, 0.4279, 0.3868), (0.2683, 0.2610, 0.2687))
IMAGENET: tuple[Statistics, Statistics] = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
MNIST: tuple[Statistics, Statistics] = ((0.1307, 0.1307, 0.1307), (0.3081, 0.3081, 0.3081))
