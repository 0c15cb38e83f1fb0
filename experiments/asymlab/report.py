def write(*a): pass
def print_verdicts(v,t): print(v)
