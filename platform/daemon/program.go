package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// forgetProgram unmaps the pages of this process's program file. Most of them serve only its start and an apply. What
// runs next is mapped again from the page cache, 64 KiB at a fault.
func forgetProgram() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	list, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	defer list.Close()
	var errs error
	for lines, where := bufio.NewScanner(list), ""; lines.Scan(); {
		// 00400000-013dd000 r-xp 00000000 08:01 1234  /usr/bin/edgespan (proc_pid_maps(5))
		f := strings.Fields(lines.Text())
		switch {
		case len(f) > 5 && strings.Contains(f[0], "-"):
			where = ""
			if strings.HasPrefix(f[1], "r-") && strings.Join(f[5:], " ") == self {
				where = f[0]
			}
		case where != "" && f[0] == "Anonymous:" && f[1] == "0": // a page that was written to exists nowhere else
			errs = errors.Join(errs, unmap(where))
		}
	}
	return errs
}

func unmap(where string) error {
	var from, to uintptr
	if _, err := fmt.Sscanf(where, "%x-%x", &from, &to); err != nil {
		return fmt.Errorf("parse a mapping: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
		return fmt.Errorf("unmap the program: %w", errno)
	}
	return nil
}
