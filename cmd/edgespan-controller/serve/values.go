package serve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// value is the value of a flag, set by text from the command line, the environment or the controller's config. It has
// the methods of pflag.Value.
type value interface {
	String() string
	Set(text string) error
	Type() string
}

// text is any text.
type text string

func (t *text) String() string { return string(*t) }
func (t *text) Type() string   { return "string" }

func (t *text) Set(s string) error {
	*t = text(s)
	return nil
}

// list is a list of texts: separated by commas, or from a repeated flag.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }
func (l *list) Type() string   { return "list" }

func (l *list) Set(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			*l = append(*l, part)
		}
	}
	return nil
}

// number is an integer, decimal or, as in the seed's flags, hexadecimal after 0x.
type number int

func (n *number) String() string { return strconv.Itoa(int(*n)) }
func (n *number) Type() string   { return "int" }

func (n *number) Set(s string) error {
	digits, base := strings.ToLower(s), 10
	if rest, hex := strings.CutPrefix(digits, "0x"); hex {
		digits, base = rest, 16
	}
	i, err := strconv.ParseInt(digits, base, 32)
	if err != nil {
		return fmt.Errorf("invalid value %.40q: must be a whole number", s)
	}
	*n = number(i)
	return nil
}

// seconds is a number that is not negative.
type seconds struct{ number }

func (n *seconds) Set(s string) error {
	was := n.number
	if err := n.number.Set(s); err != nil {
		return err
	}
	if n.number < 0 {
		n.number = was
		return fmt.Errorf("invalid value %.40q: must be 0 or more", s)
	}
	return nil
}

// boolean is a boolean in the words of the seed's flags.
type boolean bool

var (
	yes = []string{"true", "1", "yes", "t", "y"}
	no  = []string{"false", "0", "no", "f", "n"}
)

func (b *boolean) String() string   { return strconv.FormatBool(bool(*b)) }
func (b *boolean) Type() string     { return "bool" }
func (b *boolean) IsBoolFlag() bool { return true }

func (b *boolean) Set(s string) error {
	word := strings.ToLower(s)
	switch {
	case slices.Contains(yes, word):
		*b = true
	case slices.Contains(no, word):
		*b = false
	default:
		return fmt.Errorf("invalid value %.40q: must be true or false", s)
	}
	return nil
}
