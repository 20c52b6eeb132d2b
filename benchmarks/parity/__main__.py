from benchmarks.parity.page import main

main()
