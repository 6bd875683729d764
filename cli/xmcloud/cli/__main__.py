from xmcloud.cli.main import main

main()
