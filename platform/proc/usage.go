package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the resource usage of a process.
type Usage struct {
	Resident int64         // bytes of memory, including shared memory
	CPU      time.Duration // since its start, in steps of 10 ms
	Written  int64         // bytes to disks since its start
}

// tick is the unit of times in /proc: USER_HZ is 100 for every program.
const tick = time.Second / 100

// UsageOf reads the usage of a process.
func UsageOf(pid int) (Usage, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	u, err := parseUsage(string(text), int64(os.Getpagesize()))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	text, err = os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	_, rest, _ := strings.Cut(string(text), "\nwrite_bytes: ")
	if _, err := fmt.Sscanf(rest, "%d", &u.Written); err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: unknown form of /proc io: %w", pid, err)
	}
	return u, nil
}

// parseUsage parses proc(5) stat; as in parseStat, fields are counted from the last parenthesis.
func parseUsage(s string, page int64) (Usage, error) {
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 22 {
		return Usage{}, fmt.Errorf("unknown form of /proc stat")
	}
	var n [3]int64
	for i, field := range []int{11, 12, 21} { // 14 utime, 15 stime, 24 rss
		var err error
		if n[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return Usage{}, fmt.Errorf("usage in /proc stat: %w", err)
		}
	}
	return Usage{Resident: n[2] * page, CPU: time.Duration(n[0]+n[1]) * tick}, nil
}

// Resident returns the bytes of memory of exactly this process, including shared memory; ok is false if it has ended.
func (id Ident) Resident() (bytes int64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.Pid))
	if err != nil {
		return 0, false
	}
	st, err := parseStat(string(text))
	if err != nil || st.start != id.Start || st.state == 'Z' {
		return 0, false
	}
	u, err := parseUsage(string(text), int64(os.Getpagesize()))
	return u.Resident, err == nil
}
