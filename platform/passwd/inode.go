package passwd

import (
	"fmt"
	"os"
	"syscall"
)

// inode tells a file from the one that it replaced, and one state of it from the next where
// both have one size and one time of writing.
func inode(info os.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(s.Ino, s.Ctim.Sec, s.Ctim.Nsec)
}
