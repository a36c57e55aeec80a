package dump

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Stamp is what each change of a file or folder changes: of a folder, that an entry comes or goes.
type Stamp struct {
	device, inode uint64
	size          int64
	mode          uint32
	mtime, ctime  unix.Timespec
}

// tellingAfter is how long ago a file must have changed when it is read for its Stamp to tell the next change: two
// changes within a tick of the kernel's clock give equal times.
const tellingAfter = time.Second

// StampOf returns the Stamp of what is at a path, which may be a link.
func StampOf(path string) (Stamp, error) {
	var st unix.Stat_t // os.Lstat would allocate 400 bytes
	if err := unix.Lstat(path, &st); err != nil {
		return Stamp{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return Stamp{st.Dev, st.Ino, st.Size, st.Mode, st.Mtim, st.Ctim}, nil
}

// IsTelling reports whether each change after now will give another Stamp. Take the Stamp before the file is read, and
// the time before the Stamp.
func (s Stamp) IsTelling(now time.Time) bool {
	return now.Sub(time.Unix(s.ctime.Unix())) > tellingAfter
}

// IsFolder reports whether it is that of a folder.
func (s Stamp) IsFolder() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }
