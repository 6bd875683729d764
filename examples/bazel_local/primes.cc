// Writes the primes below a number to the file that OUTPUT_PATH names.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  const char* path = std::getenv("OUTPUT_PATH");
  const char* flag = "--below=";
  if (argc != 2 || std::strncmp(argv[1], flag, std::strlen(flag)) != 0 || path == nullptr) {
    std::fprintf(stderr, "usage: OUTPUT_PATH=FILE primes --below=NUMBER\n");
    return 2;
  }
  const long below = std::atol(argv[1] + std::strlen(flag));
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) {
    std::perror(path);
    return 1;
  }
  std::vector<bool> composite(below > 0 ? below : 0);
  long count = 0;
  for (long number = 2; number < below; ++number) {
    if (composite[number]) continue;
    std::fprintf(file, "%ld\n", number);
    ++count;
    for (long multiple = number * number; multiple < below; multiple += number) {
      composite[multiple] = true;
    }
  }
  std::fclose(file);
  std::printf("%ld primes\n", count);
  return 0;
}
