package passwd

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
)

// Limits of a file. A check at cost 14 takes about a second of one processor; htpasswd uses cost 5 by default.
const (
	longestName  = 64
	largestFile  = 1 << 20 // bytes
	largestCost  = 14
	smallestCost = bcrypt.MinCost
)

// user is one line.
type user struct {
	role  string
	hash  []byte
	cost  int
	right atomic.Pointer[[sha256.Size]byte] // File.sum of the last correct password
}

// parse parses the text of a file. Its error has every fault with its line.
func parse(name string, text []byte, roles []string) (map[string]*user, error) {
	users := map[string]*user{}
	lines := map[string]int{}
	var faults []error
	for n, line := range bytes.Split(text, []byte{'\n'}) {
		words := strings.TrimSpace(string(line))
		if words == "" || words[0] == '#' {
			continue
		}
		at := func(err error) { faults = append(faults, fmt.Errorf("%s:%d: %w", name, n+1, err)) }
		who, u, err := parseLine(words, roles)
		if err != nil {
			at(err)
		} else if first, twice := lines[who]; twice {
			at(fmt.Errorf("user %q: duplicate of line %d: give each user once", who, first))
		}
		if who != "" {
			users[who], lines[who] = u, n+1
		}
	}
	return users, errors.Join(faults...)
}

// parseLine parses one line. Its errors never contain the hash.
func parseLine(line string, roles []string) (string, *user, error) {
	words := strings.Split(line, ":")
	if len(words) != 3 {
		return "", nil, fmt.Errorf("has %d fields: must be USER:BCRYPT-HASH:ROLE", len(words))
	}
	name, hash, role := words[0], words[1], words[2]
	var faults []error
	if err := checkName(name); err != nil {
		faults = append(faults, err)
	}
	cost, err := checkHash(hash)
	if err != nil {
		faults = append(faults, fmt.Errorf("user %.64q: %w", name, err))
	}
	if !slices.Contains(roles, role) {
		faults = append(faults,
			fmt.Errorf("user %.64q: invalid role %.40q: must be one of %s", name, role, strings.Join(roles, ", ")))
	}
	return name, &user{role: role, hash: []byte(hash), cost: cost}, errors.Join(faults...)
}

func checkName(name string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }
	if name == "" || len(name) > longestName || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("user %.64q: invalid name: must be 1 to %d printable characters without spaces", name, longestName)
	}
	return nil
}

// checkHash accepts the prefixes 2a, 2b and 2y, which are the same function.
func checkHash(hash string) (cost int, err error) {
	const allowed = "must be a bcrypt hash, as htpasswd -nB makes it"
	if len(hash) != 60 || !slices.Contains([]string{"$2a$", "$2b$", "$2y$"}, hash[:4]) {
		return 0, errors.New("hash: not bcrypt: " + allowed)
	}
	if strings.Trim(hash[7:], "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") != "" || hash[6] != '$' {
		return 0, errors.New("hash: invalid characters: " + allowed)
	}
	cost, err = strconv.Atoi(hash[4:6])
	if err != nil || cost < smallestCost || cost > largestCost {
		return 0, fmt.Errorf("hash: invalid cost %.2q: must be %02d to %d", hash[4:6], smallestCost, largestCost)
	}
	return cost, nil
}
