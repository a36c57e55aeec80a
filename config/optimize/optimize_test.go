package optimize

import "fmt"

func name(kind string, i int) string { return fmt.Sprintf("%s%04d", kind, i) }

func mac(a, b int) string { return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", a>>8, a&255, b>>8, b&255) }
