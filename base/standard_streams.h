// What a process was given as stdin, stdout and stderr: a closed one is a trap, and not every file
// can be waited for.
#ifndef HVDRAY_BASE_STANDARD_STREAMS_H_
#define HVDRAY_BASE_STANDARD_STREAMS_H_

namespace hvdray {

/// Opens /dev/null wherever 0, 1 or 2 is closed: else a descriptor of ours would get such a number,
/// and a print would go into it. To be called first, before anything else opens a file.
void FillStandardStreams();

/// Whether epoll takes this descriptor. It refuses regular files, folders and some devices
/// (/dev/null), which can be read at any time, and what is not open at all.
bool IsPollable(int fd);

}  // namespace hvdray

#endif  // HVDRAY_BASE_STANDARD_STREAMS_H_
